#include "client/cpp/blob_cache.h"

#include <utility>

namespace kiln {

std::shared_ptr<const std::string> BlobCache::Get(const v1::Digest& digest) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = by_hash_.find(digest.sha256());
  if (found == by_hash_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->blob;
}

void BlobCache::Put(const v1::Digest& digest, std::shared_ptr<const std::string> blob) {
  if (blob->size() > byte_cap_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (by_hash_.contains(digest.sha256())) return;
  bytes_ += blob->size();
  entries_.push_front({digest.sha256(), std::move(blob)});
  by_hash_[digest.sha256()] = entries_.begin();
  while (bytes_ > byte_cap_) {
    bytes_ -= entries_.back().blob->size();
    by_hash_.erase(entries_.back().sha256);
    entries_.pop_back();
  }
}

}  // namespace kiln
