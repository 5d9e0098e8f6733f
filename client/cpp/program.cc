#include "client/cpp/program.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kiln {

int64_t ByteSize(v1::DType dtype) {
  switch (dtype) {
    case v1::BOOL:
    case v1::UINT8:
    case v1::INT8:
    case v1::FLOAT8_E4M3FN:
    case v1::FLOAT8_E5M2:
    case v1::FLOAT8_E4M3FNUZ:
    case v1::FLOAT8_E5M2FNUZ:
      return 1;
    case v1::INT16:
    case v1::UINT16:
    case v1::FLOAT16:
    case v1::BFLOAT16:
      return 2;
    case v1::INT32:
    case v1::UINT32:
    case v1::FLOAT32:
    case v1::COMPLEX32:
      return 4;
    case v1::INT64:
    case v1::UINT64:
    case v1::FLOAT64:
    case v1::COMPLEX64:
      return 8;
    case v1::COMPLEX128:
      return 16;
    default:
      return 0;
  }
}

bool SameStrides(const int64_t* sizes, const int64_t* a, const int64_t* b, uint32_t rank) {
  bool same = true;
  for (uint32_t d = 0; d < rank; ++d) {
    if (sizes[d] == 0) return true;
    same &= a[d] == b[d] || sizes[d] == 1;
  }
  return same;
}

std::optional<int64_t> Program::ByteExtent(const Value& value, std::span<const int64_t> slots) const {
  int64_t last = 0;  // index of the last element
  for (uint32_t d = 0; d < value.rank; ++d) {
    const int64_t size = slots[value.shape + d], stride = slots[value.shape + value.rank + d];
    if (size == 0) return 0;
    int64_t step;
    if (__builtin_mul_overflow(size - 1, stride, &step) || __builtin_add_overflow(last, step, &last)) {
      return std::nullopt;
    }
  }
  int64_t bytes;
  if (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, ByteSize(value.dtype), &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

absl::Status Program::CheckWorkspace(std::span<const int64_t> slots) const {
  for (uint32_t v : workspace_values) {
    const std::optional<int64_t> bytes = ByteExtent(values[v], slots);
    int64_t end;
    if (!bytes || __builtin_add_overflow(*bytes, slots[values[v].offset], &end) || end > slots[workspace]) {
      return absl::InvalidArgumentError(
          absl::StrCat("value ", v, " does not lie inside the workspace of ", slots[workspace], " bytes"));
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln
