#include "cache/error_store.h"

#include <utility>

#include "cache/forwarding_store.h"

namespace kiln {
namespace {

class ErrorStore final : public ForwardingStore {
 public:
  ErrorStore(std::unique_ptr<Store> inner, Faults faults)
      : ForwardingStore(std::move(inner)), faults_(std::move(faults)) {}

  absl::StatusOr<std::string> GetBlob(const RequestContext& ctx, const Digest& digest) override {
    if (absl::Status s = Fail("GetBlob"); !s.ok()) return s;
    absl::StatusOr<std::string> blob = inner().GetBlob(ctx, digest);
    if (blob.ok() && faults_.corrupt) faults_.corrupt(*blob);
    return blob;
  }
  absl::StatusOr<std::vector<Digest>> FindMissing(const RequestContext& ctx, std::span<const Digest> digests) override {
    if (absl::Status s = Fail("FindMissing"); !s.ok()) return s;
    return inner().FindMissing(ctx, digests);
  }
  absl::StatusOr<Record> GetRecord(const RequestContext& ctx, const RecordId& id) override {
    if (absl::Status s = Fail("GetRecord"); !s.ok()) return s;
    return inner().GetRecord(ctx, id);
  }
  absl::StatusOr<std::vector<ListedRecord>> List(const RequestContext& ctx, const ListRequest& request) override {
    if (absl::Status s = Fail("List"); !s.ok()) return s;
    return inner().List(ctx, request);
  }
  absl::Status Publish(const RequestContext& ctx, const Publication& publication) override {
    if (absl::Status s = Fail("Publish"); !s.ok()) return s;
    return inner().Publish(ctx, publication);
  }
  absl::Status RemoveRecord(const RequestContext& ctx, const RecordId& id) override {
    if (absl::Status s = Fail("RemoveRecord"); !s.ok()) return s;
    return inner().RemoveRecord(ctx, id);
  }
  absl::Status RemoveBlob(const RequestContext& ctx, const Digest& digest) override {
    if (absl::Status s = Fail("RemoveBlob"); !s.ok()) return s;
    return inner().RemoveBlob(ctx, digest);
  }
  absl::Status Lease(const RequestContext& ctx, const RecordId& id, absl::Time until) override {
    if (absl::Status s = Fail("Lease"); !s.ok()) return s;
    return inner().Lease(ctx, id, until);
  }
  absl::Status ReleaseLeases(const RequestContext& ctx) override {
    if (absl::Status s = Fail("ReleaseLeases"); !s.ok()) return s;
    return inner().ReleaseLeases(ctx);
  }
  absl::Status Maintain(const RequestContext& ctx) override {
    if (absl::Status s = Fail("Maintain"); !s.ok()) return s;
    return inner().Maintain(ctx);
  }
  absl::StatusOr<StoreStats> Stats(const RequestContext& ctx) override {
    if (absl::Status s = Fail("Stats"); !s.ok()) return s;
    return inner().Stats(ctx);
  }

 private:
  absl::Status Fail(std::string_view op) const { return faults_.fail ? faults_.fail(op) : absl::OkStatus(); }

  const Faults faults_;
};

}  // namespace

std::unique_ptr<Store> NewErrorStore(std::unique_ptr<Store> inner, Faults faults) {
  return std::make_unique<ErrorStore>(std::move(inner), std::move(faults));
}

}  // namespace kiln
