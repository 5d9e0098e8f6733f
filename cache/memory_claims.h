// Claims of one process, in memory.
#pragma once

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "cache/claims.h"
#include "cache/clock.h"
#include "cache/mutex.h"

namespace kiln {

// Thread-safe. Never fails for any other reason than those in claims.h.
class MemoryClaims final : public Claims {
 public:
  explicit MemoryClaims(Clock* clock) : clock_(clock) {}  // must outlive this

  absl::StatusOr<Claim> Acquire(const RequestContext& ctx, const Key& key, const std::string& owner,
                                absl::Duration ttl) override;
  absl::StatusOr<Claim> Renew(const RequestContext& ctx, const Claim& claim, absl::Duration ttl) override;
  absl::Status Release(const RequestContext& ctx, const Claim& claim) override;
  absl::Status Check(const RequestContext& ctx, const Claim& claim) override;

 private:
  // The stored claim, if it is `claim` and lives; else null.
  Claim* FindLive(const Claim& claim) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropExpired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Clock* const clock_;
  Mutex mu_;
  absl::flat_hash_map<Key, Claim> claims_ ABSL_GUARDED_BY(mu_);
  uint64_t last_token_ ABSL_GUARDED_BY(mu_) = 0;
  size_t drop_at_ ABSL_GUARDED_BY(mu_) = 1024;  // the size at which expired claims are dropped next
};

}  // namespace kiln
