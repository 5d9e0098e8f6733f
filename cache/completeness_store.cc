#include "cache/completeness_store.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/forwarding_store.h"

namespace kiln {
namespace {

class CompletenessStore final : public ForwardingStore {
 public:
  CompletenessStore(std::unique_ptr<Store> inner, uint64_t max_read_bytes)
      : ForwardingStore(std::move(inner)), max_read_bytes_(max_read_bytes) {}

  absl::StatusOr<Record> GetRecord(const RequestContext& ctx, const RecordId& id) override {
    absl::StatusOr<Record> record = inner().GetRecord(ctx, id);
    if (!record.ok()) return record;
    const absl::Status s = CheckBlobs(ctx, record->blobs);
    if (s.ok()) return record;
    if (!absl::IsNotFound(s)) return s;
    if (inner().GetRecord(ctx, id).ok()) {  // else it went together with the blob
      ++incomplete_;
      inner().RemoveRecord(ctx, id).IgnoreError();
    }
    return absl::NotFoundError(absl::StrCat("record ", id.ToString(), ": ", s.message()));
  }

  absl::StatusOr<StoreStats> Stats(const RequestContext& ctx) override {
    absl::StatusOr<StoreStats> stats = inner().Stats(ctx);
    if (stats.ok()) stats->incomplete += incomplete_;
    return stats;
  }

 private:
  absl::Status CheckBlobs(const RequestContext& ctx, const std::vector<Digest>& blobs) {
    uint64_t bytes = 0;
    for (const Digest& digest : blobs) bytes += digest.size;
    if (bytes > max_read_bytes_) {
      const absl::StatusOr<std::vector<Digest>> missing = inner().FindMissing(ctx, blobs);
      if (!missing.ok()) return missing.status();
      return missing->empty() ? absl::OkStatus() : absl::NotFoundError("no blob " + missing->front().ToString());
    }
    // On past a bad one: damage often has neighbours, and all that is found goes at once, so that the next publication
    // repairs the whole record.
    absl::Status first;
    for (const Digest& digest : blobs) {
      const absl::Status s = inner().GetBlob(ctx, digest).status();
      if (!s.ok() && !absl::IsNotFound(s)) return s;
      first.Update(s);
    }
    return first;
  }

  const uint64_t max_read_bytes_;
  std::atomic<uint64_t> incomplete_ = 0;
};

}  // namespace

std::unique_ptr<Store> NewCompletenessStore(std::unique_ptr<Store> inner, uint64_t max_read_bytes) {
  return std::make_unique<CompletenessStore>(std::move(inner), max_read_bytes);
}

}  // namespace kiln
