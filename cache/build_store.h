// From a configuration to nested stores.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/compressing_store.h"
#include "cache/metrics_store.h"
#include "cache/rocksdb_store.h"
#include "cache/store.h"
#include "cache/store_options.h"

namespace kiln {

struct StoreConfig {
  std::string directory;  // empty: in memory only
  StoreOptions options;   // cap, times to live, clock, test seam
  CompressionOptions compression;
  uint64_t memory_bytes = 64 << 20;             // of blobs kept in memory in front of the disk; 0: none
  absl::Duration max_call = absl::Seconds(10);  // the longest that one call may take, as far as the disk lets itself be
                                                // interrupted
  uint64_t max_checked_bytes = 64 << 20;        // completeness_store.h: max_read_bytes
  StoreMetrics* metrics = nullptr;              // null: none; must outlive the store
};

// metrics( deadline( completeness( read_through( verifying( compressing( rocksdb or memory ))))))
//
// Fails as OpenRocksDbStore does. `report` may be null.
absl::StatusOr<std::unique_ptr<Store>> BuildStore(const StoreConfig& config, OpenReport* report = nullptr);

}  // namespace kiln
