#include "cache/clock.h"

#include "absl/time/clock.h"

namespace kiln {
namespace {

class RealClock final : public Clock {
 public:
  absl::Time Now() override { return absl::Now(); }
  void Wait(Mutex* mu, CondVar* cv, absl::Time deadline) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    cv->WaitFor(mu, deadline - Now());
  }
};

}  // namespace

Clock* Clock::Real() {
  static RealClock* const clock = new RealClock;
  return clock;
}

}  // namespace kiln
