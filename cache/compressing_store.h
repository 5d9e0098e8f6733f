// Compresses blobs with zstd on their way down. Digests and sizes stay those of the content.
#pragma once

#include <memory>

#include "cache/store.h"

namespace kiln {

struct CompressionOptions {
  int level = 3;  // 0: nothing is compressed, but what was stays readable
  // A blob is stored as it is when it is smaller than this, or shrinks by less than an eighth.
  size_t min_size = 512;
  // Of the content. A larger blob is refused on the way down (InvalidArgument) and DataLoss on the way up: no stored
  // bytes make the store ask for more memory than this.
  uint64_t max_size = uint64_t{1} << 30;
};

// Thread-safe. What was stored and does not decompress to the digest's size is DataLoss.
std::unique_ptr<Store> NewCompressingStore(std::unique_ptr<Store> inner, const CompressionOptions& options);

}  // namespace kiln
