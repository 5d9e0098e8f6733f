#include "cache/flight.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

absl::Status TermIsOver() { return absl::FailedPreconditionError("single-flight: the lead is another's"); }

}  // namespace

void Flight::Join() {
  MutexLock lock(&mu_);
  ++waiting_;
}

Flight::Turn Flight::Await(const RequestContext& ctx, const Observer& observer) {
  // Made before any lock is taken: it runs at once, here, if the stop was requested already.
  std::stop_callback wake(ctx.stop, [this] {
    MutexLock lock(&mu_);
    cv_.NotifyAll();
  });
  Cursor cursor;
  for (;;) {
    Step step = NextStep(ctx, cursor);
    step.stop.request_stop();
    if (observer) std::for_each(step.events.begin(), step.events.end(), observer);
    if (step.turn.has_value()) return *std::move(step.turn);
  }
}

Flight::Step Flight::NextStep(const RequestContext& ctx, Cursor& cursor) {
  MutexLock lock(&mu_);
  for (;;) {
    if (std::vector<std::string> events = NewEvents(cursor); !events.empty()) return {.events = std::move(events)};
    if (result_.has_value()) {
      --waiting_;
      return {.turn = *result_};
    }
    if (absl::Status s = ContextStatus(ctx, clock_->Now()); !s.ok()) return EndWait(s);
    if (IsVacant()) return TakeLead(ctx);
    clock_->Wait(&mu_, &cv_, std::min(ctx.deadline, leader_->last_beat + silence_));
  }
}

Flight::Step Flight::TakeLead(const RequestContext& ctx) {
  Step step;
  if (leader_.has_value()) step.stop = leader_->stop;
  leader_ = Leader{.last_beat = clock_->Now(), .deadline = ctx.deadline};
  ++term_;
  events_.clear();
  event_bytes_ = 0;
  --waiting_;
  step.turn = Term{term_, leader_->stop.get_token()};
  cv_.NotifyAll();  // a lost leader may be in Pause
  return step;
}

Flight::Step Flight::EndWait(const absl::Status& why) {
  --waiting_;
  return {.turn = Value(why), .stop = Unwanted()};
}

std::vector<std::string> Flight::NewEvents(Cursor& cursor) {
  if (cursor.term != term_) cursor = {term_, 0};
  std::vector<std::string> out(events_.begin() + static_cast<ptrdiff_t>(cursor.next), events_.end());
  cursor.next = events_.size();
  return out;
}

bool Flight::IsVacant() const { return !leader_ || leader_->last_beat + silence_ <= clock_->Now(); }

std::stop_source Flight::Unwanted() const {
  if (!leader_ || waiting_ > 0) return std::stop_source(std::nostopstate);
  const bool wanted = leader_->wanted && clock_->Now() < leader_->deadline;
  return wanted ? std::stop_source(std::nostopstate) : leader_->stop;
}

void Flight::LeaderGone(uint64_t term) {
  std::stop_source unwanted(std::nostopstate);
  {
    MutexLock lock(&mu_);
    if (!Leads(term)) return;
    leader_->wanted = false;
    unwanted = Unwanted();
    cv_.NotifyAll();
  }
  unwanted.request_stop();
}

absl::Status Flight::Beat(uint64_t term, std::optional<std::string> event) {
  std::stop_source unwanted(std::nostopstate);
  {
    MutexLock lock(&mu_);
    if (!Leads(term)) return TermIsOver();
    leader_->last_beat = clock_->Now();
    if (event.has_value()) {
      if (event->size() > max_event_bytes_ - event_bytes_) {
        return absl::ResourceExhaustedError(absl::StrCat("single-flight: events exceed ", max_event_bytes_, " bytes"));
      }
      event_bytes_ += event->size();
      events_.push_back(*std::move(event));
      cv_.NotifyAll();
    }
    unwanted = Unwanted();
  }
  unwanted.request_stop();
  return absl::OkStatus();
}

absl::Status Flight::Pause(const RequestContext& ctx, uint64_t term, absl::Duration d) {
  std::stop_callback wake(ctx.stop, [this] {
    MutexLock lock(&mu_);
    cv_.NotifyAll();
  });
  MutexLock lock(&mu_);
  const absl::Time end = clock_->Now() + d;
  for (;;) {
    if (!Leads(term)) return TermIsOver();
    const absl::Time now = clock_->Now();
    if (absl::Status s = ContextStatus(ctx, now); !s.ok()) return s;
    if (now >= end) return absl::OkStatus();
    clock_->Wait(&mu_, &cv_, std::min(end, ctx.deadline));
  }
}

Flight::End Flight::Finish(uint64_t term, const Value& value) {
  MutexLock lock(&mu_);
  if (!Leads(term)) return End::kLost;
  const bool gave_up = !value.ok() && leader_->stop.stop_requested();
  if (!gave_up) result_ = value;
  leader_.reset();
  cv_.NotifyAll();
  return gave_up ? End::kFreed : End::kResult;
}

void Flight::Abandon(uint64_t term) {
  std::stop_source stop(std::nostopstate);
  {
    MutexLock lock(&mu_);
    if (!Leads(term)) return;
    stop = leader_->stop;
    leader_.reset();
    cv_.NotifyAll();
  }
  stop.request_stop();
}

}  // namespace kiln
