// Concurrent identical computations run once: the first caller leads, the others wait for its result.
//
// A flight is shared by all who want one key at one time. Its leader holds the key's claim and reports progress, which
// every participant sees from the start. The flight ends when the leader finishes, and all get its result, success or
// failure. If the leader gives up without a result, or shows no sign of life for a claim's lifetime, one who waits is
// made leader and computes again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/claims.h"
#include "cache/clock.h"
#include "cache/context.h"
#include "cache/key.h"
#include "cache/mutex.h"

namespace kiln {

class Flight;

struct SingleFlightOptions {
  // A leader that has not called Emit or Heartbeat for so long has lost the flight.
  absl::Duration claim_ttl = absl::Seconds(30);
  // How often a claim held elsewhere is asked for again.
  absl::Duration poll = absl::Milliseconds(100);
  // Of one flight, all its events together; Emit refuses more (ResourceExhausted).
  size_t max_event_bytes = 16 << 20;
  std::string owner = "local";  // names this process in claims
};

struct SingleFlightStats {
  uint64_t led = 0;         // computations begun
  uint64_t joined = 0;      // callers that found another at work, whatever came of it
  uint64_t taken_over = 0;  // of `led`, those begun in place of a leader that was lost or gave up
  uint64_t in_flight = 0;   // flights now
};

class SingleFlight {
 public:
  // Called for each event, in order, from the flight's first, on the caller's thread, and under no lock; for the
  // leader's own events on the thread that calls Emit.
  using Observer = std::function<void(const std::string& event)>;

  // The leader's side of a flight, lent to the work for the time that it runs. Thread-safe.
  class Lead {
   public:
    // Tells all participants, present and future, in order; proves that the leader lives. FailedPrecondition once the
    // flight is another's: the work is then of no use, and should end.
    absl::Status Emit(std::string event);

    // Proves that the leader lives. Fails as Emit does. Cheap enough to be called every second.
    absl::Status Heartbeat();

    // Requested when nobody wants the result any more (all participants, the leader's caller included, have been
    // cancelled or have run out of time, the latter as seen at a heartbeat) or the flight has been lost.
    std::stop_token stop() const { return stop_; }

    // To be checked before an effect that only the owner of the key may have. Its token is 0 if the claims service was
    // in trouble: the work then goes on unclaimed.
    Claim claim() const;

   private:
    friend class SingleFlight;
    Lead(SingleFlight& owner, Flight& flight, uint64_t term, std::stop_token stop, Claim claim,
         const Observer& observer);
    absl::Status RenewIfDue();

    SingleFlight& owner_;
    Flight& flight_;
    const uint64_t term_;
    const std::stop_token stop_;
    const Observer& observer_;
    mutable Mutex mu_;
    Claim claim_ ABSL_GUARDED_BY(mu_);
  };

  // Computes the value. Runs on the thread of the caller that leads, which is held until it returns even if that caller
  // has gone, as long as others wait. It should look in the store first: an earlier holder of the claim may have
  // published. A failure after lead.stop() was requested is not the others': one who still waits computes again.
  using Work = std::function<absl::StatusOr<std::string>(Lead& lead)>;

  struct Outcome {
    absl::StatusOr<std::string> value;
    bool joined = false;  // another computed it
  };

  // `claims` and `clock` must outlive this.
  SingleFlight(SingleFlightOptions options, Claims* claims, Clock* clock);
  ~SingleFlight();  // no call may be running

  // Leads or joins the flight of `key`. A follower's wait ends with DeadlineExceeded or Cancelled by its own context,
  // and harms nobody else. Events seen before a change of leader may come a second time after it.
  Outcome Run(const RequestContext& ctx, const Key& key, const Work& work, const Observer& observer = nullptr);

  SingleFlightStats Stats() const;

 private:
  std::shared_ptr<Flight> Enter(const Key& key);
  void Leave(const Key& key, const std::shared_ptr<Flight>& flight);
  void Close(const Key& key, const Flight& flight);

  // Leads for one term. Nothing: the flight was lost to another, whose result is to be waited for.
  std::optional<absl::StatusOr<std::string>> RunTerm(const RequestContext& ctx, const Key& key, Flight& flight,
                                                     uint64_t term, std::stop_token stop, const Work& work,
                                                     const Observer& observer);

  // Waits while another process holds the claim.
  absl::StatusOr<Claim> AcquireClaim(const RequestContext& ctx, const Key& key, Flight& flight, uint64_t term);

  struct Entry {
    std::shared_ptr<Flight> flight;
    int participants = 0;
  };

  const SingleFlightOptions options_;
  Claims* const claims_;
  Clock* const clock_;
  mutable Mutex mu_;
  absl::flat_hash_map<Key, Entry> flights_ ABSL_GUARDED_BY(mu_);
  SingleFlightStats stats_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln
