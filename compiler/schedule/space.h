// Iteration spaces: when nodes of different shapes can be computed in one, and where in it each stands.
#pragma once

#include <optional>
#include <vector>

#include "compiler/graph/sym.h"
#include "compiler/lower/group.h"
#include "compiler/lower/index.h"

namespace kiln {

// Dims of a space; bits of dims of size 1 mean nothing.
using DimMask = std::vector<bool>;

// A space and what its reductions fold. A mask may be there and empty: a reduction over dims of size 1.
struct SpaceShape {
  Index sizes;
  std::optional<DimMask> reduced = std::nullopt;  // by row reductions; nullopt: there are none
  std::optional<DimMask> sunk = std::nullopt;     // by sinks
  bool sinks_outer = false;                       // they fold outer values, into one: `sunk` is all dims
  // Nothing at full points waits for a row reduction, so that they could be sinks as well.
  bool can_sink = true;
};

// The space of two groups' nodes together.
struct CombinedSpace {
  SpaceShape shape;
  bool sink_first = false;   // the first one's row reductions become sinks
  bool sink_second = false;  // the second one's
};

// Whether its row reductions fold all dims.
bool FoldsAll(const SymContext& syms, const SpaceShape& shape);

// `shape` with sinks that fold outer values; nothing if it has no rows along the innermost dim, or other sinks.
std::optional<SpaceShape> WithOuterSinks(SymContext& syms, const SpaceShape& shape);

// Elements that a group may accumulate beside its rows.
inline constexpr int64_t kMaxKept = 16384;

// Whether each dim of one space is a run of dims of the other: else a point's index in the one is no affine function of
// that in the other. Two groups that read each other need not ask: their maps say where they meet.
bool AreCutAlike(SymContext& syms, const Index& a, const Index& b);

// Nothing if there is none: the numbers of points differ, dims that one folds can't be told apart in the other, or
// reductions would meet that no one loop nest computes. Test: space_test.cc.
std::optional<CombinedSpace> Combine(SymContext& syms, const SpaceShape& first, const SpaceShape& second);

// The dims of `to` that are `mask`'s of `from`; nothing if the two, of as many elements, are not cut at the same
// places.
std::optional<DimMask> MapMask(SymContext& syms, const Index& from, const DimMask& mask, const Index& to);

// Axes of a space and the positions that nodes of each place stand at.
class GroupSpace {
 public:
  GroupSpace() = default;
  GroupSpace(SymContext& syms, SpaceShape shape);

  struct Part {
    Index axes, sizes;
    Sym position;  // row-major
    Sym count;
  };
  const SpaceShape& shape() const { return shape_; }
  const Part& part(Place place) const { return parts_[static_cast<size_t>(place)]; }
  bool has(Place place) const;
  void ForbidSinking() { shape_.can_sink = false; }

 private:
  Part MakePart(SymContext& syms, const Index& axes, const std::optional<DimMask>& without) const;

  SpaceShape shape_;
  Part parts_[3];
};

}  // namespace kiln
