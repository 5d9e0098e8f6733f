#include "cache/build_store.h"

#include <utility>

#include "cache/completeness_store.h"
#include "cache/deadline_store.h"
#include "cache/memory_store.h"
#include "cache/read_through_store.h"
#include "cache/verifying_store.h"

namespace kiln {
namespace {

absl::StatusOr<std::unique_ptr<Store>> Bottom(const StoreConfig& config, OpenReport* report) {
  if (!config.directory.empty()) return OpenRocksDbStore(config.directory, config.options, report);
  if (report != nullptr) *report = OpenReport{.created = true};
  return NewMemoryStore(config.options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> BuildStore(const StoreConfig& config, OpenReport* report) {
  absl::StatusOr<std::unique_ptr<Store>> bottom = Bottom(config, report);
  if (!bottom.ok()) return bottom.status();
  Clock* const clock = config.options.clock;
  std::unique_ptr<Store> store = *std::move(bottom);
  store = NewCompressingStore(std::move(store), config.compression);
  store = NewVerifyingStore(std::move(store));
  if (config.memory_bytes != 0) store = NewReadThroughStore(std::move(store), config.memory_bytes);
  store = NewCompletenessStore(std::move(store), config.max_checked_bytes);
  store = NewDeadlineStore(std::move(store), config.max_call, clock);
  if (config.metrics != nullptr) store = NewMetricsStore(std::move(store), config.metrics, clock);
  return store;
}

}  // namespace kiln
