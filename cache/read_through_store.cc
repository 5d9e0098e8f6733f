#include "cache/read_through_store.h"

#include <list>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "cache/forwarding_store.h"
#include "cache/mutex.h"

namespace kiln {
namespace {

// Thread-safe.
class BlobLru {
 public:
  explicit BlobLru(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // Null if it is not there.
  std::shared_ptr<const std::string> Get(const Digest& digest) {
    MutexLock lock(&mu_);
    const auto it = index_.find(digest);
    if (it == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, it->second);
    return it->second->second;
  }

  void Put(const Digest& digest, const std::string& bytes) {
    if (bytes.size() > max_bytes_ / 8) return;
    auto copy = std::make_shared<const std::string>(bytes);
    MutexLock lock(&mu_);
    if (index_.contains(digest)) return;
    order_.emplace_front(digest, std::move(copy));
    index_[digest] = order_.begin();
    bytes_ += bytes.size();
    while (bytes_ > max_bytes_) Drop(std::prev(order_.end()));
  }

  void Remove(const Digest& digest) {
    MutexLock lock(&mu_);
    const auto it = index_.find(digest);
    if (it != index_.end()) Drop(it->second);
  }

 private:
  using Order = std::list<std::pair<Digest, std::shared_ptr<const std::string>>>;

  void Drop(Order::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    bytes_ -= entry->second->size();
    index_.erase(entry->first);
    order_.erase(entry);
  }

  const uint64_t max_bytes_;
  Mutex mu_;
  Order order_ ABSL_GUARDED_BY(mu_);  // the last read first
  absl::flat_hash_map<Digest, Order::iterator> index_ ABSL_GUARDED_BY(mu_);
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

class ReadThroughStore final : public ForwardingStore {
 public:
  ReadThroughStore(std::unique_ptr<Store> inner, uint64_t max_bytes)
      : ForwardingStore(std::move(inner)), lru_(max_bytes) {}

  absl::StatusOr<std::string> GetBlob(const RequestContext& ctx, const Digest& digest) override {
    if (const std::shared_ptr<const std::string> hit = lru_.Get(digest); hit != nullptr) return *hit;
    absl::StatusOr<std::string> blob = inner().GetBlob(ctx, digest);
    if (blob.ok()) lru_.Put(digest, *blob);
    return blob;
  }

  // What was just published is what is asked for next.
  absl::Status Publish(const RequestContext& ctx, const Publication& publication) override {
    const absl::Status s = inner().Publish(ctx, publication);
    if (!s.ok()) return s;
    for (const Blob& blob : publication.blobs) lru_.Put(blob.digest, blob.bytes);
    return s;
  }

  absl::Status RemoveBlob(const RequestContext& ctx, const Digest& digest) override {
    lru_.Remove(digest);
    return inner().RemoveBlob(ctx, digest);
  }

 private:
  BlobLru lru_;
};

}  // namespace

std::unique_ptr<Store> NewReadThroughStore(std::unique_ptr<Store> inner, uint64_t max_bytes) {
  return std::make_unique<ReadThroughStore>(std::move(inner), max_bytes);
}

}  // namespace kiln
