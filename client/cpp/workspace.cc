#include "client/cpp/workspace.h"

#include <sys/mman.h>

#include <cstdlib>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kAlignment = 64;

// From 2 MiB up in huge pages where the system has them: a first touch in 4 KiB pages costs more than most kernels.
class Block {
 public:
  Block() = default;
  Block(Block&& o) noexcept : data_(o.data_), size_(o.size_) { o.data_ = nullptr; }
  ~Block() { std::free(data_); }

  // Keeps the memory if it is large enough.
  bool Reserve(size_t bytes) {
    if (bytes <= size_ && data_ != nullptr) return true;
    std::free(data_);
    data_ = nullptr;
    const size_t unit = bytes >= kHugePage ? kHugePage : kAlignment;
    if (bytes > SIZE_MAX - unit) return false;
    size_ = (bytes + unit - 1) / unit * unit;
    data_ = std::aligned_alloc(unit, size_);
    if (data_ != nullptr && unit == kHugePage) madvise(data_, size_, MADV_HUGEPAGE);  // advice only
    return data_ != nullptr;
  }
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
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
