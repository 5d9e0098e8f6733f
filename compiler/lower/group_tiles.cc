// Squares of two loop dims: what is contiguous along the one that is not the vector axis goes through scratch.
#include <algorithm>
#include <utility>

#include "compiler/lower/group_lowering.h"

namespace kiln {

using loop::AxisKind;

// Accesses that share the first-level cache.
constexpr size_t kMaxStaged = 4;

// `own`: each element is accessed by one thread.
loop::BufferId GroupLowering::AddScratch(DType dtype, int64_t elements, bool own) {
  const bool shared = schedule_.on_gpu() && !(own && schedule_.registers);
  kernel_.buffers.push_back({.dtype = dtype,
                             .size = syms_.Const(elements),
                             .space = shared ? loop::Space::kShared : loop::Space::kRegister,
                             .access = loop::Access::kReadWrite});
  return static_cast<loop::BufferId>(kernel_.buffers.size() - 1);
}

// The index with the probe's axes at the current point.
Sym GroupLowering::AtCurrentPoint(Sym index) {
  return syms_.Substitute(index, [&](Var var) -> std::optional<Sym> {
    for (size_t d = 0; d < at_.size(); ++d) {
      if (syms_.AsVar(probe_->axes[d]) == var) return at_[d];
    }
    return std::nullopt;
  });
}

// Opens the parallel axis, over the outer dims and tiles, copies what is read across, and opens the loops along a tile.
Sym GroupLowering::OpenTiles() {
  const size_t vector = schedule_.dims.size() - 1;
  const auto tiled = static_cast<size_t>(schedule_.tiled);
  const Sym tile = syms_.Const(schedule_.tile);
  std::vector<Sym> extents;
  Sym extent = syms_.Const(1);
  for (size_t i = 0; i <= vector; ++i) {
    const Sym whole = Extent(schedule_.dims[i]);
    extents.push_back(i == tiled || i == vector ? syms_.CeilDiv(whole, tile) : whole);
    extent = syms_.Mul(extent, extents.back());
  }
  const Index at = Unravel(syms_, Open(AxisKind::kParallel, extent, 1), extents);
  Sym base[2], length[2];
  for (size_t i = 0; i <= vector; ++i) {
    if (i != tiled && i != vector) {
      SetIndex(schedule_.dims[i], at[i]);
      continue;
    }
    const Sym whole = Extent(schedule_.dims[i]);
    base[i == vector] = syms_.Mul(at[i], tile);
    length[i == vector] =
        syms_.ProvablyDivisible(whole, tile) ? tile : syms_.Min(tile, syms_.Sub(whole, base[i == vector]));
  }
  CopyTiles(base[0], length[0], base[1], length[1]);
  if (schedule_.on_gpu()) b_->Barrier();
  const auto [along, across] = OpenTile(length[0], length[1]);
  SetIndex(schedule_.dims[tiled], syms_.Add(base[0], along));
  SetIndex(schedule_.dims[vector], syms_.Add(base[1], across));
  const Sym from = syms_.Add(syms_.Mul(across, syms_.Const(schedule_.tile + 1)), along);
  for (const Staged& staged : staged_)
    e_->Stage(staged.load.root, AtCurrentPoint(staged.load.index), staged.scratch, from);
  for (const MemoryAccess& access : probe_->accesses) {
    if (access.root != kNoValue && !IsStaged(access)) PrefetchNextTile(access);
  }
  return extent;
}

// Loops over a tile: a GPU's threads share all of it.
std::pair<Sym, Sym> GroupLowering::OpenTile(Sym outer, Sym inner) {
  if (schedule_.on_gpu()) {
    const Sym at = Open(AxisKind::kVector, syms_.Mul(outer, inner), schedule_.width);
    return {syms_.FloorDiv(at, inner), syms_.Mod(at, inner)};
  }
  const Sym at = Open(AxisKind::kSerial, outer, 1);
  return {at, Open(AxisKind::kVector, inner, schedule_.width)};
}

bool GroupLowering::IsStaged(const MemoryAccess& access) const {
  return std::ranges::any_of(staged_, [&](const Staged& staged) { return staged.load == access; });
}

// A tile's lines are too short for the hardware to see where they go on.
void GroupLowering::PrefetchNextTile(const MemoryAccess& access) {
  PrefetchAt(access, schedule_.dims.back().back(), schedule_.tile);
}

// Asks for the element of `access` that is `steps` along the dim.
void GroupLowering::PrefetchAt(const MemoryAccess& access, int dim, int64_t steps) {
  if (schedule_.on_gpu() || NamesData(syms_, access.index)) return;
  Sym& at = at_[static_cast<size_t>(dim)];
  const Sym here = at;
  at = syms_.Add(here, syms_.Const(steps));
  e_->Prefetch(access.root, AtCurrentPoint(access.index), access.store ? loop::Access::kWrite : loop::Access::kRead);
  at = here;
}

void GroupLowering::CopyTiles(Sym base_along, Sym length_along, Sym base_vector, Sym length_vector) {
  const std::vector<int>&along = schedule_.dims[schedule_.tiled], &vector = schedule_.dims.back();
  const Var along_axis = *syms_.AsVar(probe_->axes[along.back()]),
            vector_axis = *syms_.AsVar(probe_->axes[vector.back()]);
  const int depth = open_;
  int64_t bytes = 0;
  const auto [across, contiguous] = OpenTile(length_vector, length_along);
  SetIndex(vector, syms_.Add(base_vector, across));
  SetIndex(along, syms_.Add(base_along, contiguous));
  const Sym to = syms_.Add(syms_.Mul(across, syms_.Const(schedule_.tile + 1)), contiguous);
  for (const MemoryAccess& access : probe_->accesses) {
    if (!IsAcross(syms_, access, along_axis, vector_axis)) continue;
    if (IsStaged(access) || staged_.size() == kMaxStaged) continue;
    // A column more than the tile has, so that its rows do not fall on the same cache sets.
    const int64_t elements = schedule_.tile * (schedule_.tile + 1);
    bytes += elements * ByteSize(graph_.type(access.root)->dtype);
    if (schedule_.on_gpu() && bytes > schedule_.scratch_bytes) continue;
    staged_.push_back({access, AddScratch(graph_.type(access.root)->dtype, elements)});
    b_->Store(staged_.back().scratch, to, e_->LoadFlat(access.root, AtCurrentPoint(access.index)));
    PrefetchNextTile(access);
  }
  CloseLoops(depth);
}

}  // namespace kiln
