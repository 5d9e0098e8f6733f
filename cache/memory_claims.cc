#include "cache/memory_claims.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

absl::Status CheckTtl(absl::Duration ttl) {
  if (ttl > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError("claim: the time to live is not positive");
}

absl::Status Lost(const Claim& claim) {
  return absl::FailedPreconditionError(absl::StrCat("claim ", claim.token, " on ", claim.key.Hex(), " is lost"));
}

}  // namespace

absl::StatusOr<Claim> MemoryClaims::Acquire(const RequestContext&, const Key& key, const std::string& owner,
                                            absl::Duration ttl) {
  if (absl::Status s = CheckTtl(ttl); !s.ok()) return s;
  MutexLock lock(&mu_);
  if (claims_.size() >= drop_at_) DropExpired();
  Claim& claim = claims_[key];
  if (claim.token != 0 && clock_->Now() < claim.expires) {
    return absl::AlreadyExistsError(absl::StrCat(key.Hex(), " is claimed by ", claim.owner));
  }
  claim = {key, owner, ++last_token_, clock_->Now() + ttl};
  return claim;
}

absl::StatusOr<Claim> MemoryClaims::Renew(const RequestContext&, const Claim& claim, absl::Duration ttl) {
  if (absl::Status s = CheckTtl(ttl); !s.ok()) return s;
  MutexLock lock(&mu_);
  Claim* live = FindLive(claim);
  if (live == nullptr) return Lost(claim);
  live->expires = clock_->Now() + ttl;
  return *live;
}

absl::Status MemoryClaims::Release(const RequestContext&, const Claim& claim) {
  MutexLock lock(&mu_);
  const auto it = claims_.find(claim.key);
  if (it != claims_.end() && it->second.token == claim.token) claims_.erase(it);
  return absl::OkStatus();
}

absl::Status MemoryClaims::Check(const RequestContext&, const Claim& claim) {
  MutexLock lock(&mu_);
  return FindLive(claim) == nullptr ? Lost(claim) : absl::OkStatus();
}

Claim* MemoryClaims::FindLive(const Claim& claim) {
  const auto it = claims_.find(claim.key);
  if (it == claims_.end() || it->second.token != claim.token) return nullptr;
  return clock_->Now() < it->second.expires ? &it->second : nullptr;
}

void MemoryClaims::DropExpired() {
  const absl::Time now = clock_->Now();
  absl::erase_if(claims_, [&](const auto& entry) { return entry.second.expires <= now; });
  drop_at_ = std::max<size_t>(1024, 2 * claims_.size());
}

}  // namespace kiln
