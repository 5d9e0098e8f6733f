// Who computes what: exclusive, expiring claims on keys. Single-flight rests on this interface alone, so that several
// servers can share one implementation of it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/context.h"
#include "cache/key.h"

namespace kiln {

struct Claim {
  Key key = {};
  std::string owner = {};  // for messages only
  uint64_t token = 0;      // fencing: greater than that of every earlier claim on the key, never 0
  absl::Time expires = {};
};

// Thread-safe. Times are those of the implementation's clock. Any other code means that the service is in trouble.
class Claims {
 public:
  virtual ~Claims() = default;

  // AlreadyExists, naming the owner, while another's claim lives. `ttl` must be positive (InvalidArgument).
  virtual absl::StatusOr<Claim> Acquire(const RequestContext& ctx, const Key& key, const std::string& owner,
                                        absl::Duration ttl) = 0;

  // A live claim now lives until `ttl` from now; FailedPrecondition if it has expired, been released or been taken.
  virtual absl::StatusOr<Claim> Renew(const RequestContext& ctx, const Claim& claim, absl::Duration ttl) = 0;

  // Ends the claim. Ok, and without effect, if it is no longer the key's.
  virtual absl::Status Release(const RequestContext& ctx, const Claim& claim) = 0;

  // Ok while the claim lives; FailedPrecondition after. To be asked before an effect that must be the owner's.
  virtual absl::Status Check(const RequestContext& ctx, const Claim& claim) = 0;
};

}  // namespace kiln
