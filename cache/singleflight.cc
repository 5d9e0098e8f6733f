#include "cache/singleflight.h"

#include <utility>
#include <variant>

#include "absl/cleanup/cleanup.h"
#include "cache/flight.h"

namespace kiln {

SingleFlight::SingleFlight(SingleFlightOptions options, Claims* claims, Clock* clock)
    : options_(std::move(options)), claims_(claims), clock_(clock) {}

SingleFlight::~SingleFlight() = default;

SingleFlight::Outcome SingleFlight::Run(const RequestContext& ctx, const Key& key, const Work& work,
                                        const Observer& observer) {
  const std::shared_ptr<Flight> flight = Enter(key);
  const absl::Cleanup leave = [&] { Leave(key, flight); };
  for (;;) {
    Flight::Turn turn = flight->Await(ctx, observer);
    if (auto* value = std::get_if<Flight::Value>(&turn)) return {std::move(*value), true};
    const auto& [term, stop] = std::get<Flight::Term>(turn);
    std::optional<Flight::Value> value = RunTerm(ctx, key, *flight, term, stop, work, observer);
    if (value.has_value()) return {*std::move(value), false};
    flight->Join();
  }
}

std::optional<Flight::Value> SingleFlight::RunTerm(const RequestContext& ctx, const Key& key, Flight& flight,
                                                   uint64_t term, std::stop_token stop, const Work& work,
                                                   const Observer& observer) {
  // Frees the lead on every way out that is not Finish.
  const absl::Cleanup abandon = [&] { flight.Abandon(term); };
  const absl::StatusOr<Claim> claim = AcquireClaim(ctx, key, flight, term);
  if (!claim.ok()) {
    if (absl::IsFailedPrecondition(claim.status())) return std::nullopt;
    return claim.status();
  }
  Lead lead(*this, flight, term, stop, *claim, observer);
  absl::Cleanup release = [&] { claims_->Release(RequestContext(), lead.claim()).IgnoreError(); };
  const std::stop_callback gone(ctx.stop, [&] { flight.LeaderGone(term); });
  {
    MutexLock lock(&mu_);
    ++stats_.led;
    if (term > 1) ++stats_.taken_over;
  }
  Flight::Value value = work(lead);
  std::move(release).Invoke();  // before one who waits can lead, and claim
  const Flight::End end = flight.Finish(term, value);
  if (end == Flight::End::kResult) Close(key, flight);
  if (end == Flight::End::kLost && !value.ok()) return std::nullopt;
  return value;
}

absl::StatusOr<Claim> SingleFlight::AcquireClaim(const RequestContext& ctx, const Key& key, Flight& flight,
                                                 uint64_t term) {
  for (;;) {
    absl::StatusOr<Claim> claim = claims_->Acquire(ctx, key, options_.owner, options_.claim_ttl);
    if (claim.ok()) return claim;
    if (!absl::IsAlreadyExists(claim.status())) return Claim{.key = key, .owner = options_.owner};
    if (absl::Status s = flight.Pause(ctx, term, options_.poll); !s.ok()) return s;
    if (absl::Status s = flight.Beat(term); !s.ok()) return s;
  }
}

std::shared_ptr<Flight> SingleFlight::Enter(const Key& key) {
  MutexLock lock(&mu_);
  Entry& entry = flights_[key];
  if (entry.flight == nullptr) {
    entry.flight = std::make_shared<Flight>(clock_, options_.claim_ttl, options_.max_event_bytes);
  } else {
    ++stats_.joined;
  }
  ++entry.participants;
  entry.flight->Join();
  return entry.flight;
}

void SingleFlight::Leave(const Key& key, const std::shared_ptr<Flight>& flight) {
  MutexLock lock(&mu_);
  const auto it = flights_.find(key);
  if (it == flights_.end() || it->second.flight != flight) return;  // closed already
  if (--it->second.participants == 0) flights_.erase(it);
}

// Whoever comes from now on starts a flight of its own.
void SingleFlight::Close(const Key& key, const Flight& flight) {
  MutexLock lock(&mu_);
  const auto it = flights_.find(key);
  if (it != flights_.end() && it->second.flight.get() == &flight) flights_.erase(it);
}

SingleFlightStats SingleFlight::Stats() const {
  MutexLock lock(&mu_);
  SingleFlightStats stats = stats_;
  stats.in_flight = flights_.size();
  return stats;
}

SingleFlight::Lead::Lead(SingleFlight& owner, Flight& flight, uint64_t term, std::stop_token stop, Claim claim,
                         const Observer& observer)
    : owner_(owner),
      flight_(flight),
      term_(term),
      stop_(std::move(stop)),
      observer_(observer),
      claim_(std::move(claim)) {}

absl::Status SingleFlight::Lead::Emit(std::string event) {
  if (absl::Status s = flight_.Beat(term_, event); !s.ok()) return s;
  if (observer_) observer_(event);
  return RenewIfDue();
}

absl::Status SingleFlight::Lead::Heartbeat() {
  if (absl::Status s = flight_.Beat(term_); !s.ok()) return s;
  return RenewIfDue();
}

// A claim that ran out while nobody else wanted it is taken again. One that is another's ends this term.
absl::Status SingleFlight::Lead::RenewIfDue() {
  const absl::Duration ttl = owner_.options_.claim_ttl;
  const Claim old = claim();
  if (old.token == 0 || owner_.clock_->Now() + ttl * 2 / 3 < old.expires) return absl::OkStatus();
  absl::StatusOr<Claim> claim = owner_.claims_->Renew(RequestContext(), old, ttl);
  if (absl::IsFailedPrecondition(claim.status())) {
    claim = owner_.claims_->Acquire(RequestContext(), old.key, old.owner, ttl);
  }
  if (absl::IsAlreadyExists(claim.status())) {
    flight_.Abandon(term_);
    return absl::FailedPreconditionError("single-flight: the claim is another's");
  }
  MutexLock lock(&mu_);
  if (claim.ok()) claim_ = *std::move(claim);
  return absl::OkStatus();  // a claims service in trouble does not end the work
}

Claim SingleFlight::Lead::claim() const {
  MutexLock lock(&mu_);
  return claim_;
}

}  // namespace kiln
