// Blobs that this process has fetched, by digest: several graphs of one job often share a shared object.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "proto/artifact.pb.h"

namespace kiln {

// Least recently used goes first. Thread-safe.
class BlobCache {
 public:
  explicit BlobCache(size_t byte_cap) : byte_cap_(byte_cap) {}

  std::shared_ptr<const std::string> Get(const v1::Digest& digest);  // null: not here
  // `blob` must have the digest. One larger than the cap is not kept.
  void Put(const v1::Digest& digest, std::shared_ptr<const std::string> blob);

 private:
  struct Entry {
    std::string sha256;
    std::shared_ptr<const std::string> blob;
  };

  const size_t byte_cap_;
  std::mutex mutex_;
  size_t bytes_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_hash_;
};

}  // namespace kiln
