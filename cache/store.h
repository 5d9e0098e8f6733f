// The cache: records by key, blobs by digest. Implemented by memory_store.h and rocksdb_store.h; each behaviour on top
// of those (verifying, compressing, metrics, …) is a decorator in a file of its own; build_store.h nests them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/context.h"
#include "cache/digest.h"
#include "cache/record.h"

namespace kiln {

struct ListRequest {
  Table table = Table::kActions;
  std::optional<Key> key = {};         // only this key's records: the members of one set
  bool all_namespaces = false;         // else those shared and those of the context's namespace; needs `admin`
  size_t limit = 1000;                 // at most so many
  std::optional<RecordId> after = {};  // go on after this record (the last one of the page before)
};

struct ListedRecord {
  Record record;
  absl::Time last_used;
  bool leased = false;
};

// Totals since the store was opened, and its present contents.
struct StoreStats {
  std::map<Table, uint64_t> records;  // present
  uint64_t blobs = 0;                 // present
  uint64_t bytes = 0;                 // present: of records and blobs as stored
  uint64_t max_bytes = 0;             // the cap; 0: none
  uint64_t leases = 0;                // present
  uint64_t published = 0;             // publications that were acknowledged
  uint64_t evicted = 0;               // records removed for the byte cap or for idleness
  uint64_t expired = 0;               // records removed at their end of life
  uint64_t corrupt = 0;               // entries removed because their bytes were not what was stored
  uint64_t incomplete = 0;            // records removed because a blob they name was missing
};

// Status codes carry policy:
//   NotFound           a miss; also what is corrupt, incomplete, expired or another namespace's
//   InvalidArgument    the caller's fault; says which field
//   PermissionDenied   a namespace that the context may not use
//   FailedPrecondition a publication that names a blob which is neither in it nor stored
//   ResourceExhausted  the cap or the disk is full
//   DeadlineExceeded, Cancelled  the context's
//   DataLoss           only below the verifying layer: bytes that are not what was stored
//   anything else      the cache is in trouble
// Whatever the code, the caller can go on: compile without the cache.
//
// Thread-safe. Calls block on the disk, at most about until the context's deadline.
class Store {
 public:
  virtual ~Store() = default;

  // The blob's content.
  virtual absl::StatusOr<std::string> GetBlob(const RequestContext& ctx, const Digest& digest) = 0;

  // Those of `digests` that are not stored, in their order.
  virtual absl::StatusOr<std::vector<Digest>> FindMissing(const RequestContext& ctx,
                                                          std::span<const Digest> digests) = 0;

  // The record, if it is live and all blobs that it names are stored. Counts as a use.
  virtual absl::StatusOr<Record> GetRecord(const RequestContext& ctx, const RecordId& id) = 0;

  // In order of (ns, key, item). No use is counted and no blob looked for; expired records are left out.
  virtual absl::StatusOr<std::vector<ListedRecord>> List(const RequestContext& ctx, const ListRequest& request) = 0;

  // Makes all of it visible, or none of it, also over a crash; on disk before this returns. A blob already stored is
  // left alone; a record already stored is replaced. Makes room first, by evicting what was used longest ago.
  virtual absl::Status Publish(const RequestContext& ctx, const Publication& publication) = 0;

  // Removes the record, then those of its blobs that no other record names. Removing what is not there is ok.
  virtual absl::Status RemoveRecord(const RequestContext& ctx, const RecordId& id) = 0;

  // Removes a blob found to be bad; records that name it are from then on incomplete. For decorators, not for callers.
  virtual absl::Status RemoveBlob(const RequestContext& ctx, const Digest& digest) = 0;

  // Until `until`, for ctx.job_id, the record is not evicted, and if removed its blobs stay. Replaces the job's earlier
  // lease on it; a time not in the future ends it. InvalidArgument without a job id, NotFound without the record.
  virtual absl::Status Lease(const RequestContext& ctx, const RecordId& id, absl::Time until) = 0;

  // Ends all leases of ctx.job_id.
  virtual absl::Status ReleaseLeases(const RequestContext& ctx) = 0;

  // Housekeeping, to be called now and then (a minute apart is fine): drops what has expired or idled, enforces the
  // cap, writes access times down, and tries to recover from an earlier disk error.
  virtual absl::Status Maintain(const RequestContext& ctx) = 0;

  virtual absl::StatusOr<StoreStats> Stats(const RequestContext& ctx) = 0;
};

}  // namespace kiln
