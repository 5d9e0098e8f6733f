// Index vectors of tensors as size expressions: flattening, unflattening, broadcasting.
#pragma once

#include <span>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/graph/sym.h"

namespace kiln {

using Index = std::vector<Sym>;

Sym NumElements(SymContext& syms, std::span<const Sym> sizes);
// Row-major position of `index` in a tensor of `sizes`.
Sym Linearize(SymContext& syms, std::span<const Sym> index, std::span<const Sym> sizes);
// The inverse: 0 <= linear < NumElements(sizes).
Index Unravel(SymContext& syms, Sym linear, std::span<const Sym> sizes);
// The index into a tensor of sizes `to` at the row-major position of `index` in `from`; as many elements each.
Index Reindex(SymContext& syms, std::span<const Sym> index, std::span<const Sym> from, std::span<const Sym> to);
// sum of index[d] * strides[d]
Sym Dot(SymContext& syms, std::span<const Sym> index, std::span<const Sym> strides);
// The index into an operand of `sizes` that PyTorch's broadcasting reads for `index` of a result: right-aligned, 0
// where the operand's size is 1 and the result's is not known to be.
Index BroadcastIndex(SymContext& syms, std::span<const Sym> index, std::span<const Sym> sizes);
// Whether data decide the index: it names a checked value (loop::Op::kCheckIndex).
bool NamesData(const SymContext& syms, Sym index);
// Elements a buffer needs so that every index of `type` lies in it: 1 + sum of (size - 1) * stride, 0 if any size is 0.
Sym StorageSize(SymContext& syms, const TensorType& type);

}  // namespace kiln
