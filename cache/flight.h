// One flight of SingleFlight: who leads, what was reported, what came out. Knows nothing of claims between processes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/clock.h"
#include "cache/context.h"
#include "cache/mutex.h"

namespace kiln {

// Thread-safe. Leaders follow one another in terms, numbered from 1; a call with a term that is over has no effect, and
// says so with FailedPrecondition.
class Flight {
 public:
  using Value = absl::StatusOr<std::string>;
  using Observer = std::function<void(const std::string& event)>;
  struct Term {
    uint64_t number;
    std::stop_token stop;  // requested when the term is over, or nobody wants the result
  };
  using Turn = std::variant<Value, Term>;

  // `silence`: how long a leader may go without a beat. `clock` must outlive this.
  Flight(Clock* clock, absl::Duration silence, size_t max_event_bytes)
      : clock_(clock), silence_(silence), max_event_bytes_(max_event_bytes) {}

  // Says that the caller wants the result, and is going to Await it. The leader is not told to stop from now on.
  void Join();

  // After Join: waits until there is a result, until the lead is free and hereby the caller's, or until the context
  // ends (then the value is its status). Shows events meanwhile.
  Turn Await(const RequestContext& ctx, const Observer& observer);

  // The leader's caller has gone; the work goes on for those who wait.
  void LeaderGone(uint64_t term);

  // The leader lives, and may have something to tell. ResourceExhausted: too much to tell.
  absl::Status Beat(uint64_t term, std::optional<std::string> event = std::nullopt);

  // Waits, as leader, for `d` or until the context ends or the term is over; ok only in the first case.
  absl::Status Pause(const RequestContext& ctx, uint64_t term, absl::Duration d);

  // The leader's result, which ends the flight. A failure of work that was asked to stop is no result: it frees the
  // lead.
  enum class End { kResult, kFreed, kLost };
  End Finish(uint64_t term, const Value& value);

  // Frees the lead.
  void Abandon(uint64_t term);

 private:
  struct Leader {
    std::stop_source stop = {};
    absl::Time last_beat = {};
    absl::Time deadline = {};  // its caller's
    bool wanted = true;        // by its caller
  };
  // A follower's place in the list of events, which starts anew with each term.
  struct Cursor {
    uint64_t term = 0;
    size_t next = 0;
  };
  struct Step {
    std::vector<std::string> events = {};
    std::optional<Turn> turn = std::nullopt;
    std::stop_source stop{std::nostopstate};  // to be requested outside the lock
  };

  // Blocks until there is something to show or to do.
  Step NextStep(const RequestContext& ctx, Cursor& cursor);
  Step TakeLead(const RequestContext& ctx) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Step EndWait(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::vector<std::string> NewEvents(Cursor& cursor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsVacant() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Leads(uint64_t term) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return leader_ && term == term_; }
  // The leader's stop source if nobody wants its result, else an empty one.
  std::stop_source Unwanted() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Clock* const clock_;
  const absl::Duration silence_;
  const size_t max_event_bytes_;
  Mutex mu_;
  CondVar cv_;
  uint64_t term_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<Leader> leader_ ABSL_GUARDED_BY(mu_);     // of term_
  int waiting_ ABSL_GUARDED_BY(mu_) = 0;                  // followers
  std::vector<std::string> events_ ABSL_GUARDED_BY(mu_);  // of term_
  size_t event_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<Value> result_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln
