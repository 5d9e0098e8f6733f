#include "server/open_store.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cache/build_store.h"
#include "cache/memory_store.h"
#include "cache/rocksdb_store.h"
#include "server/wire.h"

namespace kiln {
namespace {

constexpr absl::Duration kPause = absl::Milliseconds(100);

StoreConfig ConfigFor(const std::string& dir, const v1::Config::Cache& config, Clock* clock, StoreMetrics* metrics,
                      PublishHook hook) {
  StoreConfig store;
  store.directory = dir;
  store.options.max_bytes = config.byte_cap();
  store.options.negative_ttl = absl::Seconds(config.negative_ttl_seconds());
  store.options.clock = clock;
  store.options.publish_hook = std::move(hook);
  store.memory_bytes = config.memory_bytes();
  store.metrics = metrics;
  return store;
}

}  // namespace

OpenedStore OpenStore(const std::string& data_dir, const v1::Config::Cache& config, Clock* clock, StoreMetrics* metrics,
                      PublishHook hook, absl::Duration patience, const Logger& log) {
  const std::string dir = data_dir.empty() ? "" : absl::StrCat(data_dir, "/store");
  StoreConfig wanted = ConfigFor(dir, config, clock, metrics, std::move(hook));
  const absl::Time end = absl::Now() + patience;
  OpenReport report;
  absl::StatusOr<std::unique_ptr<Store>> store = BuildStore(wanted, &report);
  while (absl::IsUnavailable(store.status()) && absl::Now() < end) {
    absl::SleepFor(kPause);
    store = BuildStore(wanted, &report);
  }
  if (store.ok()) {
    if (report.salvaged) log->warn("the cache in {} was damaged; what could be read has been kept", dir);
    if (report.lost) log->error("the cache in {} could not be read; a new one has been made", dir);
    return {*std::move(store), dir};
  }
  log->error("no cache on disk, {}: {}; entries are kept in memory and lost at exit", dir,
             OneLine(store.status().ToString()));
  wanted.directory.clear();
  store = BuildStore(wanted);
  // In memory nothing can fail; if it did, plain memory would still do.
  return {store.ok() ? *std::move(store) : NewMemoryStore(wanted.options), ""};
}

}  // namespace kiln
