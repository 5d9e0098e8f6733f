#include "compiler/schedule/profit.h"

#include <optional>

#include "compiler/schedule/choose.h"

namespace kiln {
namespace {

// Columns are worked on a cache line or more at a time: so many rows of it stay in the second-level cache.
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

}  // namespace

bool PaysToPassAgain(SymContext& syms, const GroupSpace& space) {
  const std::optional<int64_t> length = syms.AsConst(NumReduced(syms, space.shape()));
  if (!space.InnermostReduced()) return length && *length <= kColumnRows;
  const std::optional<int64_t> rows = syms.AsConst(space.part(Place::kOuter).count);
  return !rows || *rows > kFewRows || (length && *length <= kLongRow);
}

bool IsSmall(const SymContext& syms, Sym points) {
  const std::optional<int64_t> fixed = syms.AsConst(points);
  return fixed && *fixed <= kSmall;
}

}  // namespace kiln
