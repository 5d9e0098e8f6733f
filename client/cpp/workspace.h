// Scratch memory for a plan's temporaries: one block a thread, shared by all plans that run on it.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"

namespace kiln {

// Memory held from Acquire to destruction; must end on the thread that began it, in reverse order. A nested lease (a
// call inside a call) gets another block. Blocks are kept for the thread's next call; a smaller one is replaced.
class WorkspaceLease {
 public:
  // At least `bytes`, aligned to 64. Not zeroed. ResourceExhausted if there is no memory.
  static absl::StatusOr<WorkspaceLease> Acquire(size_t bytes);

  WorkspaceLease(WorkspaceLease&& o) noexcept : data_(o.data_) { o.data_ = nullptr; }
  WorkspaceLease& operator=(WorkspaceLease&&) = delete;
  ~WorkspaceLease();

  void* data() const { return data_; }

 private:
  explicit WorkspaceLease(void* data) : data_(data) {}
  void* data_;
};

}  // namespace kiln
