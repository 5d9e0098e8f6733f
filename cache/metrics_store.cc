#include "cache/metrics_store.h"

#include <type_traits>
#include <utility>

#include "cache/forwarding_store.h"

namespace kiln {
namespace {

absl::StatusCode CodeOf(const absl::Status& s) { return s.code(); }
template <typename T>
absl::StatusCode CodeOf(const absl::StatusOr<T>& s) {
  return s.status().code();
}

class MetricsStore final : public ForwardingStore {
 public:
  MetricsStore(std::unique_ptr<Store> inner, StoreMetrics* metrics, Clock* clock)
      : ForwardingStore(std::move(inner)), metrics_(metrics), clock_(clock) {}

  absl::StatusOr<std::string> GetBlob(const RequestContext& ctx, const Digest& digest) override {
    auto blob = Timed("GetBlob", [&] { return inner().GetBlob(ctx, digest); });
    if (blob.ok()) metrics_->Moved("GetBlob", blob->size());
    return blob;
  }
  absl::StatusOr<std::vector<Digest>> FindMissing(const RequestContext& ctx, std::span<const Digest> digests) override {
    return Timed("FindMissing", [&] { return inner().FindMissing(ctx, digests); });
  }
  absl::StatusOr<Record> GetRecord(const RequestContext& ctx, const RecordId& id) override {
    return Timed("GetRecord", [&] { return inner().GetRecord(ctx, id); });
  }
  absl::StatusOr<std::vector<ListedRecord>> List(const RequestContext& ctx, const ListRequest& request) override {
    return Timed("List", [&] { return inner().List(ctx, request); });
  }
  absl::Status Publish(const RequestContext& ctx, const Publication& publication) override {
    const absl::Status s = Timed("Publish", [&] { return inner().Publish(ctx, publication); });
    uint64_t bytes = 0;
    for (const Blob& blob : publication.blobs) bytes += blob.bytes.size();
    if (s.ok()) metrics_->Moved("Publish", bytes);
    return s;
  }
  absl::Status RemoveRecord(const RequestContext& ctx, const RecordId& id) override {
    return Timed("RemoveRecord", [&] { return inner().RemoveRecord(ctx, id); });
  }
  absl::Status RemoveBlob(const RequestContext& ctx, const Digest& digest) override {
    return Timed("RemoveBlob", [&] { return inner().RemoveBlob(ctx, digest); });
  }
  absl::Status Lease(const RequestContext& ctx, const RecordId& id, absl::Time until) override {
    return Timed("Lease", [&] { return inner().Lease(ctx, id, until); });
  }
  absl::Status ReleaseLeases(const RequestContext& ctx) override {
    return Timed("ReleaseLeases", [&] { return inner().ReleaseLeases(ctx); });
  }
  absl::Status Maintain(const RequestContext& ctx) override {
    return Timed("Maintain", [&] { return inner().Maintain(ctx); });
  }

 private:
  template <typename Call>
  std::invoke_result_t<Call> Timed(std::string_view op, const Call& call) {
    const absl::Time start = clock_->Now();
    std::invoke_result_t<Call> result = call();
    metrics_->Called(op, CodeOf(result), clock_->Now() - start);
    return result;
  }

  StoreMetrics* const metrics_;
  Clock* const clock_;
};

}  // namespace

std::unique_ptr<Store> NewMetricsStore(std::unique_ptr<Store> inner, StoreMetrics* metrics, Clock* clock) {
  return std::make_unique<MetricsStore>(std::move(inner), metrics, clock);
}

}  // namespace kiln
