// Prometheus metrics. What `kilnctl stats` counts is exported from there, so the two never disagree; the rest is
// counted here.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/metrics_store.h"
#include "proto/admin.pb.h"

namespace kiln {

// The daemon as it is now; asked at each scrape, on the scraper's thread.
struct Snapshot {
  v1::StatsReply stats;
  v1::StatusReply status;
};

// Thread-safe.
class Metrics final : public StoreMetrics {
 public:
  Metrics(const std::string& build, const std::string& version);

  void Request(const std::string& method, const std::string& code, absl::Duration took);
  void Job(const std::string& kind, const std::string& outcome, absl::Duration took);
  void CacheError(const std::string& operation);
  void Called(std::string_view op, absl::StatusCode code, absl::Duration took) override;
  void Moved(std::string_view op, uint64_t bytes) override;

  // The text that a scrape gets. `source` may be null.
  std::string Text(const std::function<Snapshot()>& source) const;

  const std::shared_ptr<prometheus::Registry>& registry() const { return registry_; }

 private:
  const std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Family<prometheus::Histogram>& request_seconds_;
  prometheus::Family<prometheus::Counter>& jobs_;
  prometheus::Family<prometheus::Histogram>& job_seconds_;
  prometheus::Family<prometheus::Counter>& cache_errors_;
  prometheus::Family<prometheus::Counter>& store_calls_;
  prometheus::Family<prometheus::Histogram>& store_seconds_;
  prometheus::Family<prometheus::Counter>& store_bytes_;
};

// /metrics over HTTP, until destruction. `metrics` and `source` must outlive it.
class MetricsServer {
 public:
  // InvalidArgument where `address` ("host:port", port 0 for any) cannot be listened on.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const std::string& address, const Metrics& metrics,
                                                              std::function<Snapshot()> source);
  int port() const;

 private:
  MetricsServer() = default;
  std::shared_ptr<prometheus::Collectable> snapshot_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace kiln
