// The cache as compiles use it: actions, variants, skeletons, kernels and negative entries. This is where "a cache
// error means: compile without the cache" is decided: a look-up that fails for any reason is a miss, logged and
// counted.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/clock.h"
#include "cache/context.h"
#include "cache/key.h"
#include "cache/store.h"
#include "proto/compile.pb.h"
#include "server/logging.h"
#include "server/metrics.h"

namespace kiln {

inline constexpr size_t kInlineBytes = 64 << 10;  // blobs smaller than this travel within Done

inline constexpr size_t kMaxVariants = 64;  // of one key, in one namespace

// The blobs of one action.
struct ActionBlobs {
  std::string artifact;       // a v1::Artifact
  std::string shared_object;  // empty: there is none
  std::string provenance;     // a v1::Provenance
  std::string guards;         // a v1::GuardSpec
};

// Thread-safe.
class ActionCache {
 public:
  // All must outlive this.
  ActionCache(Store* store, Metrics* metrics, Clock* clock, absl::Duration negative_ttl, Logger log)
      : store_(store), metrics_(metrics), clock_(clock), negative_ttl_(negative_ttl), log_(std::move(log)) {}

  // `key`, `record` and the small blobs are set, `outcome` is HIT. All blobs that a client needs have been read, so
  // what is corrupt is a miss. Takes a lease for ctx.job_id.
  std::optional<v1::Done> LookupAction(const RequestContext& ctx, const Key& key);

  // Names the blobs in `record`, and publishes it with them in one step. The answer is complete: where the cache could
  // not take it, all bytes are inline.
  v1::Done PublishAction(const RequestContext& ctx, const Key& key, v1::ActionRecord record, ActionBlobs blobs);

  // Puts the large blobs into `done` too, as far as the store has them: for clients that will not be able to fetch.
  void InlineAll(const RequestContext& ctx, v1::Done* done);

  // The most specific variant whose predicates hold of `hints`. `ctx.ns` decides whose variants there are.
  std::optional<v1::Variant> LookupVariant(const RequestContext& ctx, const Key& key, std::span<const int64_t> hints);

  // Adds to the variants of `key`, in ctx.ns, in the place of one with the same predicates. `request` is what it was
  // compiled for; it and what `variant.record` names are kept as long as the variant. ResourceExhausted: the key has
  // kMaxVariants; else the store's status.
  absl::Status PublishVariant(const RequestContext& ctx, const Key& key, v1::Variant variant, std::string request);

  // The first `limit` members of a skeleton, in ctx.ns, in an order that depends on them alone.
  std::vector<v1::SkeletonMember> SkeletonMembers(const RequestContext& ctx, const Key& key, size_t limit);
  void PublishSkeletonMember(const RequestContext& ctx, const Key& key, const v1::SkeletonMember& member);
  // Counts a use. Takes a lease for ctx.job_id.
  void UseSkeletonMember(const RequestContext& ctx, const Key& key, const v1::SkeletonMember& member);

  std::optional<v1::Failure> LookupNegative(const RequestContext& ctx, const Key& key);

  // Remembers a failure, with what shows it; the digest (hex) of the latter.
  std::string PublishNegative(const RequestContext& ctx, const Key& key, v1::Failure failure, std::string reproducer);

  std::optional<std::string> LookupKernel(const RequestContext& ctx, const Key& key);
  void PublishKernel(const RequestContext& ctx, const Key& key, std::string object);

 private:
  // Puts the blobs smaller than `bytes` into `done`; false if the store lacks one.
  bool InlineBelow(const RequestContext& ctx, uint64_t bytes, const char* operation, v1::Done* done);
  std::optional<Record> Lookup(const RequestContext& ctx, Table table, const Key& key, const char* operation);
  std::optional<std::string> ReadBlob(const RequestContext& ctx, const v1::Digest& digest, const char* operation);
  absl::Status Publish(const RequestContext& ctx, Publication publication, const char* operation);
  void Count(const RequestContext& ctx, const char* operation, const absl::Status& status);

  Store* const store_;
  Metrics* const metrics_;
  Clock* const clock_;
  const absl::Duration negative_ttl_;
  const Logger log_;
};

}  // namespace kiln
