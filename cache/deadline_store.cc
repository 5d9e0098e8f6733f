#include "cache/deadline_store.h"

#include <algorithm>
#include <utility>

#include "cache/forwarding_store.h"

namespace kiln {
namespace {

class DeadlineStore final : public ForwardingStore {
 public:
  DeadlineStore(std::unique_ptr<Store> inner, absl::Duration max, Clock* clock)
      : ForwardingStore(std::move(inner)), max_(max), clock_(clock) {}

  absl::StatusOr<std::string> GetBlob(const RequestContext& ctx, const Digest& digest) override {
    return Limited<absl::StatusOr<std::string>>(ctx,
                                                [&](const RequestContext& c) { return inner().GetBlob(c, digest); });
  }
  absl::StatusOr<std::vector<Digest>> FindMissing(const RequestContext& ctx, std::span<const Digest> digests) override {
    return Limited<absl::StatusOr<std::vector<Digest>>>(
        ctx, [&](const RequestContext& c) { return inner().FindMissing(c, digests); });
  }
  absl::StatusOr<Record> GetRecord(const RequestContext& ctx, const RecordId& id) override {
    return Limited<absl::StatusOr<Record>>(ctx, [&](const RequestContext& c) { return inner().GetRecord(c, id); });
  }
  absl::StatusOr<std::vector<ListedRecord>> List(const RequestContext& ctx, const ListRequest& request) override {
    return Limited<absl::StatusOr<std::vector<ListedRecord>>>(
        ctx, [&](const RequestContext& c) { return inner().List(c, request); });
  }
  absl::Status Publish(const RequestContext& ctx, const Publication& publication) override {
    return Limited<absl::Status>(ctx, [&](const RequestContext& c) { return inner().Publish(c, publication); });
  }
  absl::Status RemoveRecord(const RequestContext& ctx, const RecordId& id) override {
    return Limited<absl::Status>(ctx, [&](const RequestContext& c) { return inner().RemoveRecord(c, id); });
  }
  absl::Status RemoveBlob(const RequestContext& ctx, const Digest& digest) override {
    return Limited<absl::Status>(ctx, [&](const RequestContext& c) { return inner().RemoveBlob(c, digest); });
  }
  absl::Status Lease(const RequestContext& ctx, const RecordId& id, absl::Time until) override {
    return Limited<absl::Status>(ctx, [&](const RequestContext& c) { return inner().Lease(c, id, until); });
  }
  absl::Status ReleaseLeases(const RequestContext& ctx) override {
    return Limited<absl::Status>(ctx, [&](const RequestContext& c) { return inner().ReleaseLeases(c); });
  }

 private:
  template <typename Result, typename Call>
  Result Limited(const RequestContext& ctx, const Call& call) const {
    const absl::Time now = clock_->Now();
    if (absl::Status s = ContextStatus(ctx, now); !s.ok()) return s;
    RequestContext limited = ctx;
    limited.deadline = std::min(ctx.deadline, now + max_);
    return call(limited);
  }

  const absl::Duration max_;
  Clock* const clock_;
};

}  // namespace

std::unique_ptr<Store> NewDeadlineStore(std::unique_ptr<Store> inner, absl::Duration max, Clock* clock) {
  return std::make_unique<DeadlineStore>(std::move(inner), max, clock);
}

}  // namespace kiln
