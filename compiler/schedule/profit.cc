#include "compiler/schedule/profit.h"

#include <algorithm>
#include <optional>

#include "compiler/schedule/choose.h"

namespace kiln {
namespace {

// Columns are worked on so many at a time, and so many rows of them stay in the second-level cache.
constexpr int64_t kColumns = 64;
constexpr int64_t kColumnRows = 2048;
// A launch is a part of what a kernel over fewer points than this costs.
constexpr int64_t kSmall = 1 << 19;

Sym NumReduced(SymContext& syms, const SpaceShape& shape) {
  Sym count = syms.Const(1);
  for (size_t d = 0; d < shape.sizes.size(); ++d) {
    if (shape.reduced && (*shape.reduced)[d]) count = syms.Mul(count, shape.sizes[d]);
  }
  return count;
}

// Whether the dim along which `type`, of as many elements as the space, lies together in memory is reduced.
bool InnermostReduced(SymContext& syms, const SpaceShape& shape, const TensorType& type) {
  if (!shape.reduced) return true;
  const std::optional<DimMask> reduced = MapMask(syms, shape.sizes, *shape.reduced, type.sizes);
  size_t innermost = type.sizes.size();
  for (size_t d = type.sizes.size(); d-- > 0;) {
    if (syms.IsConst(type.sizes[d], 1)) continue;
    if (innermost == type.sizes.size() || syms.ProvablyLess(type.strides[d], type.strides[innermost])) innermost = d;
  }
  return !reduced || innermost == type.sizes.size() || (*reduced)[innermost];
}

}  // namespace

bool PaysToPassAgain(SymContext& syms, const GroupSpace& space, const TensorType& type) {
  const std::optional<int64_t> length = syms.AsConst(NumReduced(syms, space.shape()));
  const std::optional<int64_t> rows = syms.AsConst(space.part(Place::kOuter).count);
  if (!InnermostReduced(syms, space.shape(), type)) {
    return length && *length * std::min(rows.value_or(kColumns), kColumns) <= kColumnRows * kColumns;
  }
  return !rows || *rows > kFewRows || (length && *length <= kLongRow);
}

bool IsSmall(const SymContext& syms, Sym points) {
  const std::optional<int64_t> fixed = syms.AsConst(points);
  return fixed && *fixed <= kSmall;
}

}  // namespace kiln
