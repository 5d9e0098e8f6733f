#include "compiler/ops/view_rules.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

Sym Product(SymContext& syms, std::span<const Sym> factors) {
  if (factors.empty()) return syms.Const(1);
  return factors.size() == 1 ? factors[0] : syms.Mul(factors);
}

// Dims [to_begin, to_end) of one shape and [from_begin, from_end) of the other hold the same elements.
struct DimGroup {
  size_t to_begin, to_end, from_begin, from_end;
};

// The smallest groups, from the last dim backwards. Where products are symbolic and never meet, the rest is one group.
std::vector<DimGroup> MatchDims(SymContext& syms, std::span<const Sym> to, std::span<const Sym> from) {
  std::vector<DimGroup> groups;
  size_t t = to.size(), f = from.size();
  while (t > 0 && f > 0) {
    size_t t0 = t - 1, f0 = f - 1;
    Sym pt = to[t0], pf = from[f0];
    while (pt != pf) {
      // Grow the side that is smaller; a symbolic side that is not provably smaller grows only when the other cannot.
      const bool grow_to = t0 > 0 && (f0 == 0 || !syms.ProvablyLess(pf, pt));
      if (grow_to) {
        pt = syms.Mul(pt, to[--t0]);
      } else if (f0 > 0) {
        pf = syms.Mul(pf, from[--f0]);
      } else {
        break;
      }
    }
    groups.push_back({t0, t, f0, f});
    t = t0, f = f0;
  }
  if (t > 0 || f > 0) groups.push_back({0, t, 0, f});  // sizes of 1
  return groups;
}

}  // namespace

absl::StatusOr<std::vector<Sym>> InferViewSizes(SymContext& syms, std::span<const Sym> from, std::vector<Sym> sizes) {
  const Sym total = Product(syms, from);
  std::optional<size_t> unknown;
  Sym known = syms.Const(1);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!syms.IsConst(sizes[i], -1)) {
      known = syms.Mul(known, sizes[i]);
    } else if (std::exchange(unknown, i)) {
      return absl::InvalidArgumentError("a view's size has more than one -1");
    }
  }
  if (unknown && !syms.IsConst(known, 0)) sizes[*unknown] = syms.FloorDiv(total, known);
  const Sym have = unknown ? syms.Mul(known, sizes[*unknown]) : known;
  if (syms.AsConst(have) && syms.AsConst(total) && have != total) {
    return absl::InvalidArgumentError(
        absl::StrCat("a view of ", syms.ToString(total), " elements cannot have ", syms.ToString(have)));
  }
  return sizes;
}

std::optional<std::vector<Sym>> ViewStrides(SymContext& syms, const TensorType& type, std::span<const Sym> sizes) {
  std::vector<Sym> strides(sizes.size(), syms.Const(1));
  for (const DimGroup& group : MatchDims(syms, sizes, type.sizes)) {
    // The operand's dims of a group must themselves lie like one dim.
    std::optional<Sym> base;
    Sym expected;
    for (size_t f = group.from_end; f-- > group.from_begin;) {
      if (syms.IsConst(type.sizes[f], 1)) continue;
      if (base && type.strides[f] != expected) return std::nullopt;
      if (!base) base = type.strides[f];
      expected = syms.Mul(type.strides[f], type.sizes[f]);
    }
    // A group of size 1 takes the stride of its dim, which matters only for how it prints.
    if (!base) base = group.from_begin < group.from_end ? type.strides[group.from_end - 1] : syms.Const(1);
    Sym stride = *base;
    for (size_t t = group.to_end; t-- > group.to_begin;) {
      strides[t] = stride;
      stride = syms.Mul(stride, sizes[t]);
    }
  }
  return strides;
}

std::vector<Sym> ReshapeIndex(SymContext& syms, std::span<const Sym> index, std::span<const Sym> sizes,
                              std::span<const Sym> from) {
  std::vector<Sym> result(from.size());
  for (const DimGroup& group : MatchDims(syms, sizes, from)) {
    Sym linear{};
    Sym stride = syms.Const(1);
    for (size_t t = group.to_end; t-- > group.to_begin;) {
      linear = syms.Add(linear, syms.Mul(index[t], stride));
      stride = syms.Mul(stride, sizes[t]);
    }
    for (size_t f = group.from_end; f-- > group.from_begin;) {
      const bool last = f == group.from_begin;
      result[f] = last ? linear : syms.Mod(linear, from[f]);
      if (!last) linear = syms.FloorDiv(linear, from[f]);
    }
  }
  return result;
}

std::vector<Sym> BroadcastIndex(SymContext& syms, std::span<const Sym> index, std::span<const Sym> sizes,
                                std::span<const Sym> from) {
  std::vector<Sym> result(index.end() - static_cast<ptrdiff_t>(from.size()), index.end());
  const size_t added = sizes.size() - from.size();
  for (size_t d = 0; d < from.size(); ++d) {
    if (syms.IsConst(from[d], 1) && !syms.IsConst(sizes[added + d], 1)) result[d] = Sym{};
  }
  return result;
}

}  // namespace kiln
