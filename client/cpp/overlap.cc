#include "client/cpp/overlap.h"

#include <algorithm>

namespace kiln {

bool WrittenApart(std::vector<MemoryRange>& ranges) {
  std::erase_if(ranges, [](const MemoryRange& r) { return r.begin == r.end; });
  std::sort(ranges.begin(), ranges.end(), [](const MemoryRange& a, const MemoryRange& b) { return a.begin < b.begin; });
  uintptr_t end = 0, written_end = 0;  // of those that begin no later
  for (const MemoryRange& range : ranges) {
    if (range.begin < (range.written ? end : written_end)) return false;
    end = std::max(end, range.end);
    if (range.written) written_end = std::max(written_end, range.end);
  }
  return true;
}

}  // namespace kiln
