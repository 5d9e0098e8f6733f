#include "client/cpp/workspace.h"

#include <sys/mman.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kAlignment = 64;

class Block {
 public:
  Block() = default;
  Block(Block&& o) noexcept : data_(o.data_), size_(o.size_), advised_(o.advised_) { o.data_ = nullptr; }
  ~Block() { std::free(data_); }

  // Keeps the memory if it is large enough. Of 2 MiB or more, it asks for huge pages, if the system has them, when it
  // is used again: storage_pool.cc says why.
  bool Reserve(size_t bytes) {
    if (bytes <= size_ && data_ != nullptr) {
      if (!std::exchange(advised_, true) && size_ >= kHugePage) madvise(data_, size_, MADV_HUGEPAGE);
      return true;
    }
    std::free(data_);
    data_ = nullptr;
    advised_ = false;
    const size_t unit = bytes >= kHugePage ? kHugePage : kAlignment;
    if (bytes > SIZE_MAX - unit) return false;
    size_ = (bytes + unit - 1) / unit * unit;
    data_ = std::aligned_alloc(unit, size_);
    return data_ != nullptr;
  }
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
  bool advised_ = false;
};

struct ThreadBlocks {
  std::vector<Block> blocks;  // by depth of nesting
  size_t depth = 0;
};

thread_local ThreadBlocks t_blocks;

}  // namespace

absl::StatusOr<WorkspaceLease> WorkspaceLease::Acquire(size_t bytes) {
  ThreadBlocks& t = t_blocks;
  if (t.depth == t.blocks.size()) t.blocks.emplace_back();
  Block& block = t.blocks[t.depth];
  if (!block.Reserve(bytes < kAlignment ? kAlignment : bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for a workspace of ", bytes, " bytes"));
  }
  ++t.depth;
  return WorkspaceLease(block.data());
}

WorkspaceLease::~WorkspaceLease() {
  if (data_ != nullptr) --t_blocks.depth;
}

}  // namespace kiln
