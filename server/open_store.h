// The daemon's cache, as the configuration wants it.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "cache/metrics_store.h"
#include "cache/store.h"
#include "cache/store_options.h"
#include "proto/config.pb.h"
#include "server/logging.h"

namespace kiln {

struct OpenedStore {
  std::unique_ptr<Store> store;
  std::string dir;  // empty: in memory
};

// The store in <data_dir>/store; in memory for an empty data_dir. While another process has it open, as a daemon that
// is just leaving does, waits for up to `patience`. Where it cannot be opened the daemon goes on with one in memory,
// and says so in the log: a cache in trouble is no reason not to compile. `metrics` and `clock` must outlive it.
OpenedStore OpenStore(const std::string& data_dir, const v1::Config::Cache& config, Clock* clock, StoreMetrics* metrics,
                      PublishHook hook, absl::Duration patience, const Logger& log);

}  // namespace kiln
