// The loops of a kernel.
#include <algorithm>

#include "compiler/lower/group_lowering.h"

namespace kiln {

using loop::AxisKind;

Sym GroupLowering::Extent(std::span<const int> dims) {
  Sym extent = syms_.Const(1);
  for (const int d : dims) extent = syms_.Mul(extent, group_.space[d]);
  return extent;
}

// Points of these dims of the space.
Sym GroupLowering::NumPoints(const std::vector<bool>& dims) {
  Sym count = syms_.Const(1);
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d]) count = syms_.Mul(count, group_.space[d]);
  }
  return count;
}

// Row-major position of the current point among those.
Sym GroupLowering::Position(const std::vector<bool>& dims) {
  Index index, sizes;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!dims[d]) continue;
    index.push_back(at_[d]);
    sizes.push_back(group_.space[d]);
  }
  return Linearize(syms_, index, sizes);
}

// Sets the indices of the merged dims from the loop's own. An index that is an expression gets a name until the end:
// taken apart and put together again by views a name comes out as itself, and it has the extent by which fusion judged.
void GroupLowering::SetIndex(std::span<const int> dims, Sym index) {
  std::vector<Sym> sizes;
  if (!syms_.AsVar(index) && !syms_.AsConst(index)) {
    const Sym name = syms_.Axis(kernel_.first_axis + kernel_.num_axes++, Extent(dims));
    named_.emplace(*syms_.AsVar(name), index);
    index = name;
  }
  for (const int d : dims) sizes.push_back(group_.space[d]);
  const Index at = Unravel(syms_, index, sizes);
  for (size_t i = 0; i < dims.size(); ++i) at_[dims[i]] = at[i];
}

bool GroupLowering::FoldsRows() const {
  return stage_ != Stage::kFinish &&
         std::find(group_.reduced.begin(), group_.reduced.end(), true) != group_.reduced.end();
}

// The vector axis belongs to the parallel part: pointwise groups, and columns.
bool GroupLowering::VectorIsOuter() const {
  if (schedule_.sink != Schedule::Sink::kNone) return schedule_.columns;
  return !schedule_.dims.empty() && (!FoldsRows() || schedule_.columns);
}

// Opens the parallel axis, over chunks too if sinks are inside, and the vector axis if it is not reduced. Returns the
// parallel extent.
Sym GroupLowering::OpenOuter() {
  const size_t parallel = NumOuter() - (VectorIsOuter() ? 1 : 0);
  Sym count = syms_.Const(1);
  std::vector<Sym> extents;
  for (size_t i = 0; i < parallel; ++i) {
    extents.push_back(Extent(schedule_.dims[i]));
    count = syms_.Mul(count, extents.back());
  }
  Sym inner = syms_.Const(1), blocks = syms_.Const(1);
  const Sym block = syms_.Const(schedule_.block);
  if (VectorIsOuter()) {
    inner = Extent(schedule_.dims[parallel]);
    if (schedule_.block > 0) blocks = syms_.CeilDiv(inner, block);
  }
  const bool chunked = schedule_.sink == Schedule::Sink::kInside;
  const Sym extent = syms_.Mul(syms_.Mul(count, blocks), chunked ? chunks_ : syms_.Const(1));
  Sym p = Open(AxisKind::kParallel, extent, 1);
  if (chunked) {
    AddPartials(loop::Access::kWrite);
    chunk_ = syms_.Mod(p, chunks_);
    p = syms_.FloorDiv(p, chunks_);
  }
  const Index outer = Unravel(syms_, syms_.FloorDiv(p, blocks), extents);
  for (size_t i = 0; i < parallel; ++i) SetIndex(schedule_.dims[i], outer[i]);
  if (!VectorIsOuter()) return extent;
  Sym base = syms_.Const(0);
  if (!syms_.IsConst(blocks, 1)) {
    base = syms_.Mul(syms_.Mod(p, blocks), block);
    inner = syms_.ProvablyDivisible(inner, block) ? block : syms_.Min(block, syms_.Sub(inner, base));
  }
  vector_axis_ = Open(AxisKind::kVector, inner, schedule_.width);
  SetIndex(schedule_.dims[parallel], syms_.Add(base, vector_axis_));
  return extent;
}

AxisKind GroupLowering::VectorKind() const {
  if (schedule_.on_gpu()) return AxisKind::kThread;
  return schedule_.width == 1 ? AxisKind::kSerial : AxisKind::kVector;
}

Sym GroupLowering::Open(AxisKind kind, Sym extent, uint32_t width) {
  if (kind == AxisKind::kVector) kind = VectorKind();
  const uint32_t lanes = kind == AxisKind::kThread ? schedule_.lanes : 1;
  const Sym axis = b_->BeginFor(kind, extent, width, kind == AxisKind::kParallel ? Grain() : Sym{}, lanes);
  e_->OpenScope();
  ++open_;
  return syms_.IsConst(extent, 1) ? syms_.Const(0) : axis;
}

void GroupLowering::CloseLoops(int down_to) {
  for (; open_ > down_to; --open_) {
    e_->CloseScope();
    b_->EndFor();
  }
}

// Loops over `dims`, the innermost of them the vector axis unless that is open already.
void GroupLowering::OpenInner(std::span<const std::vector<int>> dims) {
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool vector = !schedule_.columns && i + 1 == dims.size();
    const Sym extent = Extent(dims[i]);
    SetIndex(dims[i], vector ? Open(AxisKind::kVector, extent, schedule_.width) : Open(AxisKind::kSerial, extent, 1));
  }
}

// Parallel iterations that make schedule_.grain_work element operations.
Sym GroupLowering::Grain() {
  if (stage_ == Stage::kMain && schedule_.sink != Schedule::Sink::kNone) return syms_.Const(1);
  Sym points = stage_ == Stage::kFinish ? chunks_ : syms_.Const(1);
  Sym vector = syms_.Const(1);
  for (size_t i = 0; i < schedule_.dims.size(); ++i) {
    const bool parallel = i < NumOuter() - (VectorIsOuter() ? 1 : 0);
    if (!parallel) vector = syms_.Mul(vector, syms_.Max(Extent(schedule_.dims[i]), syms_.Const(1)));
  }
  if (VectorIsOuter() && schedule_.block > 0) vector = syms_.Min(vector, syms_.Const(schedule_.block));
  points = syms_.Mul(points, vector);
  const auto nodes = static_cast<int64_t>(group_.nodes.size());
  return syms_.CeilDiv(syms_.Const(std::max<int64_t>(1, schedule_.grain_work / nodes)), points);
}

}  // namespace kiln
