#include "compiler/lower/index.h"

#include <algorithm>

namespace kiln {

Sym NumElements(SymContext& syms, std::span<const Sym> sizes) {
  Sym n = syms.Const(1);
  for (const Sym size : sizes) n = syms.Mul(n, size);
  return n;
}

Sym Linearize(SymContext& syms, std::span<const Sym> index, std::span<const Sym> sizes) {
  Sym linear = syms.Const(0);
  Sym stride = syms.Const(1);
  for (size_t d = sizes.size(); d-- > 0;) {
    linear = syms.Add(linear, syms.Mul(index[d], stride));
    stride = syms.Mul(stride, sizes[d]);
  }
  return linear;
}

Index Unravel(SymContext& syms, Sym linear, std::span<const Sym> sizes) {
  Index index(sizes.size());
  Sym stride = syms.Const(1);
  for (size_t d = sizes.size(); d-- > 0;) {
    if (syms.IsConst(sizes[d], 1)) {
      index[d] = syms.Const(0);
      continue;
    }
    Sym at = syms.FloorDiv(linear, stride);
    stride = syms.Mul(stride, sizes[d]);
    // The outermost dim that is not 1 needs no remainder.
    bool outermost = true;
    for (size_t e = 0; e < d; ++e) outermost &= syms.IsConst(sizes[e], 1);
    index[d] = outermost ? at : syms.Mod(at, sizes[d]);
  }
  return index;
}

Index Reindex(SymContext& syms, std::span<const Sym> index, std::span<const Sym> from, std::span<const Sym> to) {
  // Most tensors of a group differ by dims of size 1 at most: no division then.
  Index result(to.size(), syms.Const(0));
  size_t at = 0;
  bool same = true;
  const auto skip_ones = [&](size_t d) {
    while (d < from.size() && syms.IsConst(from[d], 1)) ++d;
    return d;
  };
  for (size_t d = 0; d < to.size() && same; ++d) {
    if (syms.IsConst(to[d], 1)) continue;
    at = skip_ones(at);
    same = at < from.size() && from[at] == to[d];
    if (same) result[d] = index[at++];
  }
  if (same && skip_ones(at) == from.size()) return result;
  return Unravel(syms, Linearize(syms, index, from), to);
}

Sym Dot(SymContext& syms, std::span<const Sym> index, std::span<const Sym> strides) {
  Sym sum = syms.Const(0);
  for (size_t d = 0; d < index.size(); ++d) sum = syms.Add(sum, syms.Mul(index[d], strides[d]));
  return sum;
}

Index BroadcastIndex(SymContext& syms, std::span<const Sym> index, std::span<const Sym> sizes) {
  Index result(sizes.size());
  const size_t skip = index.size() - sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d) {
    result[d] = syms.IsConst(sizes[d], 1) ? syms.Const(0) : index[skip + d];
  }
  return result;
}

bool NamesData(const SymContext& syms, Sym index) {
  return std::ranges::any_of(syms.Variables(index), [](Var var) { return var.kind == VarKind::kValue; });
}

Sym StorageSize(SymContext& syms, const TensorType& type) {
  Sym last = syms.Const(1);
  for (int d = 0; d < type.rank(); ++d) {
    if (syms.IsConst(type.sizes[d], 0)) return syms.Const(0);
    last = syms.Add(last, syms.Mul(syms.Sub(type.sizes[d], syms.Const(1)), type.strides[d]));
  }
  return last;
}

}  // namespace kiln
