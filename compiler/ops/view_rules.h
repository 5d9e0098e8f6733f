// Index maths of views.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"

namespace kiln {

// `sizes` with the -1 (at most one) replaced by what the number of elements of `from` leaves. InvalidArgument if it
// cannot fit.
absl::StatusOr<std::vector<Sym>> InferViewSizes(SymContext& syms, std::span<const Sym> from, std::vector<Sym> sizes);

// Strides of a tensor of `type` seen with `sizes`, without a copy; nothing where the layout does not allow that.
std::optional<std::vector<Sym>> ViewStrides(SymContext& syms, const TensorType& type, std::span<const Sym> sizes);

// The index in a tensor of `from` sizes of the element at `index` of the same elements, row-major, under `sizes`. Dims
// are matched in the smallest groups with equal numbers of elements, so that dims that a reshape does not touch keep
// their index.
std::vector<Sym> ReshapeIndex(SymContext& syms, std::span<const Sym> index, std::span<const Sym> sizes,
                              std::span<const Sym> from);

// The index into an operand of `from` sizes that broadcasts to `sizes`.
std::vector<Sym> BroadcastIndex(SymContext& syms, std::span<const Sym> index, std::span<const Sym> sizes,
                                std::span<const Sym> from);

}  // namespace kiln
