#include "cache/verifying_store.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/forwarding_store.h"

namespace kiln {
namespace {

class VerifyingStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  absl::StatusOr<std::string> GetBlob(const RequestContext& ctx, const Digest& digest) override {
    absl::StatusOr<std::string> blob = inner().GetBlob(ctx, digest);
    const bool bad = absl::IsDataLoss(blob.status()) || (blob.ok() && Digest::Of(*blob) != digest);
    if (!bad) return blob;
    ++corrupt_;
    // Not under the caller's deadline: the next one must not find it again.
    RequestContext repair = ctx;
    repair.deadline = absl::InfiniteFuture();
    repair.stop = std::stop_token();
    inner().RemoveBlob(repair, digest).IgnoreError();
    return absl::NotFoundError(absl::StrCat("blob ", digest.ToString(), " was corrupt"));
  }

  absl::StatusOr<Record> GetRecord(const RequestContext& ctx, const RecordId& id) override {
    absl::StatusOr<Record> record = inner().GetRecord(ctx, id);
    if (!absl::IsDataLoss(record.status())) return record;
    ++corrupt_;
    inner().RemoveRecord(ctx, id).IgnoreError();
    return absl::NotFoundError(absl::StrCat("record ", id.ToString(), " was corrupt"));
  }

  absl::Status Publish(const RequestContext& ctx, const Publication& publication) override {
    for (const Blob& blob : publication.blobs) {
      if (Digest::Of(blob.bytes) == blob.digest) continue;
      return absl::InvalidArgumentError(absl::StrCat("publish: a blob is not ", blob.digest.ToString()));
    }
    return inner().Publish(ctx, publication);
  }

  absl::StatusOr<StoreStats> Stats(const RequestContext& ctx) override {
    absl::StatusOr<StoreStats> stats = inner().Stats(ctx);
    if (stats.ok()) stats->corrupt += corrupt_;
    return stats;
  }

 private:
  std::atomic<uint64_t> corrupt_ = 0;
};

}  // namespace

std::unique_ptr<Store> NewVerifyingStore(std::unique_ptr<Store> inner) {
  return std::make_unique<VerifyingStore>(std::move(inner));
}

}  // namespace kiln
