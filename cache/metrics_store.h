// Counts and times every call.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cache/clock.h"
#include "cache/store.h"

namespace kiln {

// Where measurements go; the server binds it to its own metrics. Thread-safe.
class StoreMetrics {
 public:
  virtual ~StoreMetrics() = default;

  // One call of Store's function `op` ("GetBlob", …). A GetRecord or GetBlob is a hit with kOk, a miss with kNotFound.
  virtual void Called(std::string_view op, absl::StatusCode code, absl::Duration took) = 0;

  // Blob contents that went up (GetBlob) or down (Publish), in bytes.
  virtual void Moved(std::string_view op, uint64_t bytes) = 0;
};

// Thread-safe. `metrics` and `clock` must outlive the store.
std::unique_ptr<Store> NewMetricsStore(std::unique_ptr<Store> inner, StoreMetrics* metrics, Clock* clock);

}  // namespace kiln
