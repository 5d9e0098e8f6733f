// A clock that moves only when told to. For tests.
#pragma once

#include "absl/time/time.h"
#include "cache/clock.h"

namespace kiln {

// Thread-safe.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(absl::Time start = absl::FromUnixSeconds(1'700'000'000)) : now_(start) {}

  absl::Time Now() override {
    MutexLock lock(&mu_);
    return now_;
  }

  void Advance(absl::Duration d) {
    MutexLock lock(&mu_);
    now_ += d;
  }

  // Wakes after a moment of real time, so that waiters see an Advance.
  void Wait(Mutex* mu, CondVar* cv, absl::Time deadline) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    if (Now() < deadline) cv->WaitFor(mu, absl::Milliseconds(1));
  }

 private:
  Mutex mu_;
  absl::Time now_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln
