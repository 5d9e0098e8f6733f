#include "cache/memory_store.h"

#include <map>
#include <string>

#include "cache/backing.h"
#include "cache/ledger_store.h"
#include "cache/mutex.h"

namespace kiln {
namespace {

absl::Status Step(const WriteSet& writes, PublishStep step) {
  return writes.hook ? writes.hook(step) : absl::OkStatus();
}

class MemoryBacking final : public Backing {
 public:
  absl::StatusOr<std::string> ReadBlob(const Digest& digest, absl::Duration) override {
    MutexLock lock(&mu_);
    const auto it = blobs_.find(digest);
    if (it == blobs_.end()) return absl::NotFoundError("blob");
    return it->second;
  }

  absl::StatusOr<Record> ReadRecord(const RecordId& id, absl::Duration) override {
    MutexLock lock(&mu_);
    const auto it = records_.find(id);
    if (it == records_.end()) return absl::NotFoundError("record");
    return it->second;
  }

  // The steps come first: nothing is to be undone when one of them fails.
  absl::Status Write(const WriteSet& writes) override {
    if (absl::Status s = Step(writes, PublishStep::kBlobsStaged); !s.ok()) return s;
    if (absl::Status s = Step(writes, PublishStep::kRecordsStaged); !s.ok()) return s;
    MutexLock lock(&mu_);
    for (const Blob* blob : writes.put_blobs) blobs_[blob->digest] = blob->bytes;
    for (const Record* record : writes.put_records) records_[record->id] = *record;
    for (const RecordId& id : writes.delete_records) records_.erase(id);
    for (const Digest& digest : writes.delete_blobs) blobs_.erase(digest);
    return absl::OkStatus();
  }

  absl::Status Recover() override { return absl::OkStatus(); }

 private:
  Mutex mu_;
  std::map<Digest, std::string> blobs_ ABSL_GUARDED_BY(mu_);
  std::map<RecordId, Record> records_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

std::unique_ptr<Store> NewMemoryStore(const StoreOptions& options) {
  return std::make_unique<LedgerStore>(options, std::make_unique<MemoryBacking>(), Inventory());
}

}  // namespace kiln
