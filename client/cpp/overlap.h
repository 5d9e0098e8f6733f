// Whether what a call writes to shares memory with its other inputs.
#pragma once

#include <cstdint>
#include <vector>

namespace kiln {

struct MemoryRange {
  uintptr_t begin = 0;
  uintptr_t end = 0;  // begin: nothing
  bool written = false;
};

// Whether every written range is apart from every other one. Sorts them.
bool WrittenApart(std::vector<MemoryRange>& ranges);

}  // namespace kiln
