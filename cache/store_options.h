// What memory_store and rocksdb_store are told.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cache/clock.h"

namespace kiln {

// Where a publication can be interrupted, in order.
enum class PublishStep : uint8_t {
  kPlanned,        // room has been found, nothing is written
  kBlobsStaged,    // blobs are in the batch
  kRecordsStaged,  // records and removals too
  kCommitted,      // the batch is on disk, the store's books do not know it
  kAcknowledged,   // all is done but the return
};

// A seam for tests: called at each step, on the publishing thread, under the writer's lock. It may end the process. A
// status that is not ok fails the publication there; from kCommitted on what was published stays.
using PublishHook = std::function<absl::Status(PublishStep)>;

struct StoreOptions {
  uint64_t max_bytes = 0;                              // of records and blobs as stored; 0: no cap
  absl::Duration max_idle = absl::InfiniteDuration();  // a record not used for longer is evicted by Maintain
  absl::Duration negative_ttl = absl::Minutes(10);     // of records in Table::kNegative that do not say
  absl::Duration orphan_grace = absl::Minutes(10);     // how long a blob that no record names stays
  Clock* clock = Clock::Real();                        // must outlive the store
  PublishHook publish_hook = nullptr;
};

}  // namespace kiln
