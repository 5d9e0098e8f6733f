#include "compiler/schedule/space.h"

#include <utility>

namespace kiln {
namespace {

bool IsOne(const SymContext& syms, Sym size) { return syms.IsConst(size, 1); }

bool SameMask(const SymContext& syms, const Index& sizes, const DimMask& a, const DimMask& b) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!IsOne(syms, sizes[d]) && a[d] != b[d]) return false;
  }
  return true;
}

bool Complementary(const SymContext& syms, const Index& sizes, const DimMask& a, const DimMask& b) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!IsOne(syms, sizes[d]) && a[d] == b[d]) return false;
  }
  return true;
}

bool AnyDim(const SymContext& syms, const Index& sizes, const DimMask& mask) {
  return !SameMask(syms, sizes, mask, DimMask(sizes.size(), false));
}

// Whether the innermost dim that is not 1 is in the mask.
bool HasInnermost(const SymContext& syms, const Index& sizes, const DimMask& mask) {
  for (size_t d = sizes.size(); d-- > 0;) {
    if (!IsOne(syms, sizes[d])) return mask[d];
  }
  return true;
}

std::optional<SpaceShape> MapShape(SymContext& syms, const SpaceShape& shape, const Index& to) {
  SpaceShape mapped{.sizes = to, .sinks_outer = shape.sinks_outer, .can_sink = shape.can_sink};
  for (const auto member : {&SpaceShape::reduced, &SpaceShape::sunk}) {
    if (!(shape.*member)) continue;
    mapped.*member = MapMask(syms, shape.sizes, *(shape.*member), to);
    if (!(mapped.*member)) return std::nullopt;
  }
  return mapped;
}

// Of two shapes over the same sizes, the first one with outer sinks: the second one fits if it has the same rows or
// none, and no other sinks.
std::optional<CombinedSpace> CombineOuterSinks(const SymContext& syms, const SpaceShape& first,
                                               const SpaceShape& second) {
  if (second.reduced && !SameMask(syms, first.sizes, *first.reduced, *second.reduced)) return std::nullopt;
  if (second.sunk && !second.sinks_outer) return std::nullopt;
  return CombinedSpace{.shape = first};
}

// Of two shapes over the same sizes.
std::optional<CombinedSpace> CombineMasks(SymContext& syms, const SpaceShape& first, const SpaceShape& second) {
  if (first.sinks_outer) return CombineOuterSinks(syms, first, second);
  if (second.sinks_outer) return CombineOuterSinks(syms, second, first);
  const Index& sizes = first.sizes;
  std::vector<const DimMask*> masks;
  for (const auto* mask : {&first.reduced, &first.sunk, &second.reduced, &second.sunk}) {
    if (!*mask) continue;
    bool known = false;
    for (const DimMask* m : masks) known |= SameMask(syms, sizes, *m, **mask);
    if (!known) masks.push_back(&**mask);
  }
  CombinedSpace combined;
  combined.shape.sizes = sizes;
  const DimMask* sunk = nullptr;
  if (masks.size() == 2) {
    if (!Complementary(syms, sizes, *masks[0], *masks[1])) return std::nullopt;
    if (!AnyDim(syms, sizes, *masks[0]) || !AnyDim(syms, sizes, *masks[1])) return std::nullopt;
    if (HasInnermost(syms, sizes, *masks[1])) std::swap(masks[0], masks[1]);
    sunk = masks[1];
    combined.shape.reduced = *masks[0];
  } else if (masks.size() == 1) {
    if (first.sunk || second.sunk) {
      sunk = masks[0];
    } else {
      combined.shape.reduced = *masks[0];
    }
  } else if (masks.size() > 2) {
    return std::nullopt;
  }
  if (sunk == nullptr) {
    combined.shape.can_sink = first.can_sink && second.can_sink;
    return combined;
  }
  combined.shape.sunk = *sunk;
  const auto sinks = [&](const SpaceShape& shape, bool& sink) {
    if (shape.sunk && !SameMask(syms, sizes, *shape.sunk, *sunk)) return false;
    sink = shape.reduced && SameMask(syms, sizes, *shape.reduced, *sunk);
    return !sink || shape.can_sink;
  };
  if (!sinks(first, combined.sink_first) || !sinks(second, combined.sink_second)) return std::nullopt;
  Sym kept = syms.Const(1);
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!(*sunk)[d]) kept = syms.Mul(kept, sizes[d]);
  }
  const std::optional<int64_t> fixed = syms.AsConst(kept);
  if (!fixed || *fixed > kMaxKept) return std::nullopt;
  return combined;
}

}  // namespace

std::optional<DimMask> MapMask(SymContext& syms, const Index& from, const DimMask& mask, const Index& to) {
  if (from == to) return mask;
  DimMask mapped(to.size(), false);
  // From the innermost dims outwards: as many elements passed on one side as on the other at each change of the mask.
  size_t t = to.size();
  Sym passed = syms.Const(1), reached = syms.Const(1);
  for (size_t f = from.size(); f > 0;) {
    const bool bit = mask[f - 1];
    while (f > 0 && (IsOne(syms, from[f - 1]) || mask[f - 1] == bit)) passed = syms.Mul(passed, from[--f]);
    while (t > 0 && reached != passed) {
      reached = syms.Mul(reached, to[--t]);
      mapped[t] = bit && !IsOne(syms, to[t]);
    }
    if (reached != passed) return std::nullopt;
  }
  return mapped;
}

bool AreCutAlike(SymContext& syms, const Index& a, const Index& b) {
  if (NumElements(syms, a) != NumElements(syms, b)) return false;
  const auto refines = [&](const Index& fine, const Index& coarse) {
    for (size_t d = 0; d < coarse.size(); ++d) {
      DimMask one(coarse.size(), false);
      one[d] = true;
      if (!MapMask(syms, coarse, one, fine)) return false;
    }
    return true;
  };
  return refines(a, b) || refines(b, a);
}

bool FoldsAll(const SymContext& syms, const SpaceShape& shape) {
  return shape.reduced && SameMask(syms, shape.sizes, *shape.reduced, DimMask(shape.sizes.size(), true));
}

std::optional<SpaceShape> WithOuterSinks(SymContext& syms, const SpaceShape& shape) {
  if (shape.sinks_outer) return shape;
  if (shape.sunk || !shape.reduced || !AnyDim(syms, shape.sizes, *shape.reduced) ||
      !HasInnermost(syms, shape.sizes, *shape.reduced))
    return std::nullopt;
  SpaceShape with = shape;
  with.sunk = DimMask(shape.sizes.size(), true);
  with.sinks_outer = true;
  return with;
}

std::optional<CombinedSpace> Combine(SymContext& syms, const SpaceShape& first, const SpaceShape& second) {
  if (NumElements(syms, first.sizes) != NumElements(syms, second.sizes)) return std::nullopt;
  // The finer one if it will do: more can be told apart in it.
  const bool finer = second.sizes.size() > first.sizes.size();
  for (const Index* sizes : {finer ? &second.sizes : &first.sizes, finer ? &first.sizes : &second.sizes}) {
    const std::optional<SpaceShape> a = MapShape(syms, first, *sizes), b = MapShape(syms, second, *sizes);
    if (a && b) return CombineMasks(syms, *a, *b);
  }
  return std::nullopt;
}

GroupSpace::GroupSpace(SymContext& syms, SpaceShape shape) : shape_(std::move(shape)) {
  Index axes;
  for (const Sym size : shape_.sizes) {
    axes.push_back(IsOne(syms, size) ? syms.Const(0) : syms.Axis(syms.NextIndex(VarKind::kAxis), size));
  }
  parts_[static_cast<size_t>(Place::kFull)] = MakePart(syms, axes, std::nullopt);
  parts_[static_cast<size_t>(Place::kOuter)] = MakePart(syms, axes, shape_.reduced);
  parts_[static_cast<size_t>(Place::kKept)] = MakePart(syms, axes, shape_.sunk);
}

bool GroupSpace::has(Place place) const {
  if (place == Place::kOuter) return shape_.reduced.has_value();
  return place == Place::kFull || shape_.sunk.has_value();
}

GroupSpace::Part GroupSpace::MakePart(SymContext& syms, const Index& axes,
                                      const std::optional<DimMask>& without) const {
  Part part;
  for (size_t d = 0; d < axes.size(); ++d) {
    if (without && (*without)[d]) continue;
    part.axes.push_back(axes[d]);
    part.sizes.push_back(shape_.sizes[d]);
  }
  part.position = Linearize(syms, part.axes, part.sizes);
  part.count = NumElements(syms, part.sizes);
  return part;
}

}  // namespace kiln
