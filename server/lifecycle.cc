#include "server/lifecycle.h"

#include <algorithm>

#include "server/status.h"

namespace kiln {
namespace {

constexpr absl::Duration kRetryAfterDrain = absl::Seconds(5);
constexpr absl::Duration kGiveUpPoll = absl::Milliseconds(100);
constexpr absl::Duration kLongWait = absl::Minutes(10);

}  // namespace

Lifecycle::Scope Lifecycle::EnterCall() {
  MutexLock lock(&mu_);
  ++calls_;
  return Scope(this, &calls_);
}

absl::StatusOr<Lifecycle::Scope> Lifecycle::EnterCompile() {
  MutexLock lock(&mu_);
  if (draining_) {
    return RefusedError(absl::StatusCode::kUnavailable, "the server is draining and begins no compile",
                        kRetryAfterDrain);
  }
  ++compiles_;
  return Scope(this, &compiles_);
}

void Lifecycle::Leave(int64_t* count) {
  MutexLock lock(&mu_);
  last_active_ = clock_->Now();
  if (--*count == 0) changed_.NotifyAll();  // which is what all waits are for
}

void Lifecycle::SetOnDrain(std::function<void()> on_drain) {
  bool now;
  {
    MutexLock lock(&mu_);
    on_drain_ = on_drain;
    now = draining_;
  }
  if (now) on_drain();
}

void Lifecycle::Drain() {
  std::function<void()> on_drain;
  {
    MutexLock lock(&mu_);
    if (draining_) return;
    draining_ = true;
    on_drain = on_drain_;
  }
  if (on_drain) on_drain();
}

void Lifecycle::RequestExit() {
  Drain();
  MutexLock lock(&mu_);
  exit_ = true;
  changed_.NotifyAll();
}

bool Lifecycle::draining() const {
  MutexLock lock(&mu_);
  return draining_;
}

int64_t Lifecycle::compiles_in_flight() const {
  MutexLock lock(&mu_);
  return compiles_;
}

bool Lifecycle::WaitForCompiles(absl::Time deadline, const std::function<bool()>& give_up) {
  MutexLock lock(&mu_);
  while (compiles_ > 0) {
    const absl::Time now = clock_->Now();
    if (now >= deadline || (give_up && give_up())) return false;
    clock_->Wait(&mu_, &changed_, give_up ? std::min(deadline, now + kGiveUpPoll) : deadline);
  }
  return true;
}

bool Lifecycle::WaitForCalls(absl::Time deadline) {
  MutexLock lock(&mu_);
  while (calls_ > 0) {
    if (clock_->Now() >= deadline) return false;
    clock_->Wait(&mu_, &changed_, deadline);
  }
  return true;
}

void Lifecycle::WaitForExit(absl::Duration idle_exit) {
  MutexLock lock(&mu_);
  while (!exit_) {
    const absl::Time now = clock_->Now();
    absl::Time until = now + kLongWait;
    if (idle_exit > absl::ZeroDuration() && calls_ + compiles_ == 0) {
      if (now - last_active_ >= idle_exit) return;
      until = std::min(until, last_active_ + idle_exit);
    }
    clock_->Wait(&mu_, &changed_, until);
  }
}

}  // namespace kiln
