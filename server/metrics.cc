#include "server/metrics.h"

#include <prometheus/text_serializer.h>

#include <vector>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// From half a millisecond (a hit) to ten minutes (the bound of a compile).
const std::vector<double>& Buckets() {
  static const auto* const kBuckets = new std::vector<double>{
      0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 600};
  return *kBuckets;
}

struct Value {
  std::string label;  // "name=value", or empty
  double value;
};

MetricFamily Make(const std::string& name, const std::string& help, MetricType type, const std::vector<Value>& values) {
  MetricFamily family{name, help, type, {}};
  for (const Value& v : values) {
    ClientMetric metric;
    if (const size_t equals = v.label.find('='); equals != std::string::npos) {
      metric.label.push_back({v.label.substr(0, equals), v.label.substr(equals + 1)});
    }
    (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = v.value;
    family.metric.push_back(std::move(metric));
  }
  return family;
}

double D(uint64_t n) { return static_cast<double>(n); }

std::vector<MetricFamily> CounterFamilies(const v1::StatsReply& stats) {
  constexpr MetricType kCounter = MetricType::Counter;
  const v1::Counters& t = stats.totals();
  return {
      Make("kiln_lookups_total", "Look-ups by result", kCounter,
           {{"result=hit", D(t.hits())}, {"result=miss", D(t.misses())}}),
      Make("kiln_compiles_total", "Compiles begun", kCounter, {{"", D(t.compiles())}}),
      Make("kiln_joined_total", "Requests that waited for another's compile", kCounter, {{"", D(t.joined())}}),
      Make("kiln_failures_total", "Requests that ended with a failure", kCounter, {{"", D(t.failures())}}),
      Make("kiln_kernels_total", "Distinct kernels asked for, by result", kCounter,
           {{"result=hit", D(t.kernel_hits())}, {"result=compiled", D(t.kernels() - t.kernel_hits())}}),
      Make("kiln_worker_spent_seconds_total", "Worker time of compiles", kCounter, {{"", t.seconds_spent()}}),
      Make("kiln_worker_saved_seconds_total", "Worker time that hits and joins did not spend", kCounter,
           {{"", t.seconds_saved()}}),
      Make("kiln_sent_bytes_total", "Bytes of artifacts and objects sent", kCounter, {{"", D(t.bytes_sent())}}),
      Make("kiln_evictions_total", "Cache entries evicted", kCounter, {{"", D(stats.evictions())}}),
      Make("kiln_corrupt_total", "Cache entries found corrupt", kCounter, {{"", D(stats.corrupt())}}),
      Make("kiln_worker_restarts_total", "Workers replaced after their death", kCounter,
           {{"", D(stats.worker_restarts())}}),
  };
}

std::vector<MetricFamily> GaugeFamilies(const Snapshot& now) {
  constexpr MetricType kGauge = MetricType::Gauge;
  double busy = 0, idle = 0, starting = 0;
  for (const v1::WorkerStatus& w : now.status.workers()) {
    ++(w.state() == "busy" ? busy : w.state() == "idle" ? idle : starting);
  }
  return {
      Make("kiln_entries", "Cache entries", kGauge, {{"", D(now.stats.entries())}}),
      Make("kiln_negative_entries", "Graphs refused after crashes", kGauge, {{"", D(now.stats.negative())}}),
      Make("kiln_store_bytes", "Bytes of the cache", kGauge, {{"", D(now.stats.bytes())}}),
      Make("kiln_store_cap_bytes", "Byte cap of the cache", kGauge, {{"", D(now.stats.byte_cap())}}),
      Make("kiln_workers", "Worker processes", kGauge,
           {{"state=busy", busy}, {"state=idle", idle}, {"state=starting", starting}}),
      Make("kiln_queued_jobs", "Jobs waiting for a worker", kGauge, {{"", D(now.status.queued())}}),
      Make("kiln_running_compiles", "Compiles in flight", kGauge, {{"", D(now.status.running())}}),
      Make("kiln_uptime_seconds", "Time since the daemon's start", kGauge, {{"", now.status.uptime_seconds()}}),
      Make("kiln_draining", "1 while no compile is begun", kGauge,
           {{"", now.status.state() == "draining" ? 1.0 : 0.0}}),
  };
}

std::vector<MetricFamily> Families(const Snapshot& now) {
  std::vector<MetricFamily> out = CounterFamilies(now.stats);
  for (MetricFamily& family : GaugeFamilies(now)) out.push_back(std::move(family));
  return out;
}

class SnapshotCollectable final : public prometheus::Collectable {
 public:
  explicit SnapshotCollectable(std::function<Snapshot()> source) : source_(std::move(source)) {}
  std::vector<MetricFamily> Collect() const override { return Families(source_()); }

 private:
  const std::function<Snapshot()> source_;
};

prometheus::Family<prometheus::Counter>& CounterFamily(prometheus::Registry& registry, const char* name,
                                                       const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

prometheus::Family<prometheus::Histogram>& HistogramFamily(prometheus::Registry& registry, const char* name,
                                                           const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

}  // namespace

Metrics::Metrics(const std::string& build, const std::string& version)
    : registry_(std::make_shared<prometheus::Registry>()),
      requests_(CounterFamily(*registry_, "kiln_requests_total", "RPCs by method and status code")),
      request_seconds_(HistogramFamily(*registry_, "kiln_request_seconds", "Time of RPCs by method")),
      jobs_(CounterFamily(*registry_, "kiln_jobs_total", "Worker jobs by kind and outcome")),
      job_seconds_(HistogramFamily(*registry_, "kiln_job_seconds", "Worker time of jobs by kind")),
      cache_errors_(CounterFamily(*registry_, "kiln_cache_errors_total", "Cache operations that failed")),
      store_calls_(CounterFamily(*registry_, "kiln_store_calls_total", "Calls of the store by function and status")),
      store_seconds_(HistogramFamily(*registry_, "kiln_store_seconds", "Time of the store's functions")),
      store_bytes_(CounterFamily(*registry_, "kiln_store_moved_bytes_total", "Blob bytes read and written")) {
  prometheus::BuildGauge()
      .Name("kiln_build_info")
      .Help("Always 1; the labels say what runs")
      .Register(*registry_)
      .Add({{"build", build}, {"version", version}})
      .Set(1);
}

void Metrics::Request(const std::string& method, const std::string& code, absl::Duration took) {
  requests_.Add({{"method", method}, {"code", code}}).Increment();
  request_seconds_.Add({{"method", method}}, Buckets()).Observe(absl::ToDoubleSeconds(took));
}

void Metrics::Job(const std::string& kind, const std::string& outcome, absl::Duration took) {
  jobs_.Add({{"job", kind}, {"outcome", outcome}}).Increment();
  job_seconds_.Add({{"job", kind}}, Buckets()).Observe(absl::ToDoubleSeconds(took));
}

void Metrics::CacheError(const std::string& operation) { cache_errors_.Add({{"operation", operation}}).Increment(); }

void Metrics::Called(std::string_view op, absl::StatusCode code, absl::Duration took) {
  store_calls_.Add({{"op", std::string(op)}, {"code", absl::StatusCodeToString(code)}}).Increment();
  store_seconds_.Add({{"op", std::string(op)}}, Buckets()).Observe(absl::ToDoubleSeconds(took));
}

void Metrics::Moved(std::string_view op, uint64_t bytes) {
  store_bytes_.Add({{"op", std::string(op)}}).Increment(D(bytes));
}

std::string Metrics::Text(const std::function<Snapshot()>& source) const {
  std::vector<MetricFamily> all = registry_->Collect();
  if (source) {
    for (MetricFamily& family : Families(source())) all.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(all);
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address, const Metrics& metrics,
                                                                    std::function<Snapshot()> source) {
  std::unique_ptr<MetricsServer> server(new MetricsServer);
  try {
    server->exposer_ = std::make_unique<prometheus::Exposer>(address, 1);
  } catch (const std::exception& e) {
    return absl::InvalidArgumentError(absl::StrCat("metrics_listen: cannot listen on ", address, ": ", e.what()));
  }
  server->snapshot_ = std::make_shared<SnapshotCollectable>(std::move(source));
  server->exposer_->RegisterCollectable(metrics.registry());
  server->exposer_->RegisterCollectable(server->snapshot_);
  return server;
}

int MetricsServer::port() const {
  const std::vector<int> ports = exposer_->GetListeningPorts();
  return ports.empty() ? 0 : ports.front();
}

}  // namespace kiln
