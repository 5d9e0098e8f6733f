// Reductions along the loops: partial results of chunks, and their folding.
#include <algorithm>
#include <optional>
#include <utility>

#include "compiler/lower/group_lowering.h"

namespace kiln {

using loop::AxisKind;

void GroupLowering::FindSinks() {
  kept_ = group_.sunk;
  kept_.flip();
  for (const GroupNode& at : group_.nodes) {
    if (at.place == Place::kKept && IsReduction(at.node)) sinks_.emplace_back(MakeFold(at.node), at.phase);
  }
}

// The dims that sinks go along.
std::vector<bool> GroupLowering::SinkDims() const {
  std::vector<bool> dims = group_.sunk;
  for (size_t d = 0; d < dims.size(); ++d) dims[d] = dims[d] && !(group_.sinks_outer && group_.reduced[d]);
  return dims;
}

std::vector<GroupLowering::Fold> GroupLowering::SinksOf(uint32_t phase) const {
  std::vector<Fold> sinks;
  for (const auto& [fold, at] : sinks_) {
    if (at == phase) sinks.push_back(fold);
  }
  return sinks;
}

// The loop dims that are not sunk.
std::span<const std::vector<int>> GroupLowering::KeptDims() const {
  const std::span<const std::vector<int>> dims(schedule_.dims);
  if (stage_ == Stage::kFinish) return dims;
  if (group_.sinks_outer) return {};
  return schedule_.sink == Schedule::Sink::kInside ? dims.first(NumOuter()) : dims.subspan(NumOuter());
}

// Of the tuple of a chunk and the current point of the kept dims.
Sym GroupLowering::PartialPosition(Sym chunk) { return syms_.Add(syms_.Mul(chunk, NumPoints(kept_)), Position(kept_)); }

// Chunks are long enough to be worth a thread's while, whole vectors where they are along the vector axis, and not too
// many; one at least. They depend on sizes alone: the same in both kernels, for any number of threads, whatever else is
// computed.
void GroupLowering::CountChunks() {
  const bool inside = schedule_.sink == Schedule::Sink::kInside;
  const Sym one = syms_.Const(1);
  // Of the loop dim that is cut; each of its iterations goes over `rest` points.
  const size_t cut = inside ? NumOuter() : 0;
  const Sym extent = Extent(schedule_.dims[cut]);
  Sym rest = one;
  for (size_t i = cut + 1; i < schedule_.dims.size(); ++i) rest = syms_.Mul(rest, Extent(schedule_.dims[i]));
  rest = syms_.Max(rest, one);
  chunk_length_ = syms_.Max(syms_.CeilDiv(extent, syms_.Const(schedule_.max_chunks)),
                            syms_.CeilDiv(syms_.Const(schedule_.chunk_points), rest));
  if (inside) {
    const Sym round = syms_.Const(int64_t{schedule_.columns ? 1 : schedule_.width} * schedule_.accumulators);
    chunk_length_ = syms_.Mul(syms_.CeilDiv(chunk_length_, round), round);
  }
  chunks_ = syms_.Max(syms_.CeilDiv(extent, chunk_length_), one);
}

// Where the current point of a chunk is accumulated.
std::pair<loop::BufferId, Sym> GroupLowering::Accumulator(const Fold& sink, size_t k) {
  if (sink.own.empty()) return {sink.partials[k], PartialPosition(chunk_)};
  return {sink.own[k], Position(kept_)};
}

void GroupLowering::MakeInits() {
  for (auto& [fold, phase] : sinks_) {
    const loop::Builder::OriginScope origin(*b_, fold.node);
    fold.init = fold.spec.init(*b_);
  }
}

void GroupLowering::AddPartials(loop::Access access) {
  MakeInits();
  const Sym elements = syms_.Mul(chunks_, NumPoints(kept_));
  for (auto& [fold, phase] : sinks_) {
    for (const loop::ValueId init : fold.init) {
      const auto id = static_cast<uint32_t>(partials_.size());
      partials_.push_back({b_->TypeOf(init), elements});
      fold.partials.push_back(e_->AddPartial(id, b_->TypeOf(init), elements, access));
    }
    const std::optional<int64_t> length = syms_.AsConst(NumPoints(kept_));
    if (access != loop::Access::kReadWrite || !schedule_.registers || group_.sinks_outer || !length) continue;
    for (const loop::ValueId init : fold.init) fold.own.push_back(AddScratch(b_->TypeOf(init), *length, /*own=*/true));
  }
}

// Opens the parallel axis and, for kOutside, the loop along a chunk's points; for kInside all that OpenOuter does.
// Returns the parallel extent.
Sym GroupLowering::OpenChunks() {
  const bool inside = schedule_.sink == Schedule::Sink::kInside;
  CountChunks();
  if (inside) return OpenOuter();
  const Sym extent = chunks_;
  const Sym p = Open(AxisKind::kParallel, extent, 1);
  AddPartials(loop::Access::kReadWrite);
  chunk_ = p;
  InitPartials();
  const Sym row = Open(AxisKind::kSerial, ChunkExtent(Extent(schedule_.dims[0])), 1);
  SetIndex(schedule_.dims[0], syms_.Add(syms_.Mul(chunk_, chunk_length_), row));
  return extent;
}

void GroupLowering::InitPartials() {
  const int depth = open_;
  OpenInner(KeptDims());
  for (const auto& [fold, phase] : sinks_) {
    const loop::Builder::OriginScope origin(*b_, fold.node);
    for (size_t k = 0; k < fold.init.size(); ++k) {
      const auto [buffer, at] = Accumulator(fold, k);
      b_->Store(buffer, at, fold.init[k]);
    }
  }
  CloseLoops(depth);
  if (schedule_.on_gpu() && group_.sinks_outer) b_->Barrier();
}

// Points of the current chunk of a loop dim.
Sym GroupLowering::ChunkExtent(Sym extent) {
  if (syms_.IsConst(chunks_, 1)) return extent;
  if (syms_.ProvablyDivisible(extent, chunk_length_)) return chunk_length_;
  return syms_.Min(chunk_length_, syms_.Sub(extent, syms_.Mul(chunk_, chunk_length_)));
}

// Folds the current point into the chunk's partial result in memory.
void GroupLowering::Sink(const Fold& sink, Place operand) {
  const Values lifted = Lift(sink, operand);
  if (probing()) {
    probed_[sink.node] = lifted;
    return;
  }
  const loop::Builder::OriginScope origin(*b_, sink.node);
  Values partial;
  for (size_t k = 0; k < sink.partials.size(); ++k) {
    const auto [buffer, at] = Accumulator(sink, k);
    partial.push_back(b_->Load(buffer, at));
  }
  const Values combined = sink.spec.combine(*b_, partial, lifted);
  // One thread stores what all have read, and will read again.
  const bool one_stores = schedule_.on_gpu() && operand == Place::kOuter;
  if (one_stores) b_->Barrier();
  for (size_t k = 0; k < combined.size(); ++k) {
    const auto [buffer, at] = Accumulator(sink, k);
    b_->Store(buffer, at, combined[k]);
  }
  if (one_stores) b_->Barrier();
}

// What a chunk's threads have accumulated, to memory.
void GroupLowering::StoreOwn() {
  if (std::ranges::all_of(sinks_, [](const auto& sink) { return sink.first.own.empty(); })) return;
  CloseLoops(1);
  const int depth = open_;
  OpenInner(KeptDims());
  for (const auto& [fold, phase] : sinks_) {
    const loop::Builder::OriginScope origin(*b_, fold.node);
    for (size_t k = 0; k < fold.own.size(); ++k)
      b_->Store(fold.partials[k], PartialPosition(chunk_), b_->Load(fold.own[k], Position(kept_)));
  }
  CloseLoops(depth);
}

void GroupLowering::StorePartials(std::span<const Fold> sinks, std::span<const loop::ValueId> totals) {
  const Sym at = PartialPosition(chunk_);
  size_t next = 0;
  for (const Fold& sink : sinks) {
    const loop::Builder::OriginScope origin(*b_, sink.node);
    for (const loop::BufferId buffer : sink.partials) b_->Store(buffer, at, totals[next++]);
  }
}

// At a point of the dims that are not sunk: the sinks' results, and the nodes that read them.
void GroupLowering::FinishSinks() {
  if (sinks_.empty()) return;
  const Values totals = FoldPartials();
  size_t first = 0;
  for (const auto& [fold, phase] : sinks_) {
    Results(fold, std::span(totals).subspan(first, fold.init.size()), Place::kKept);
    first += fold.init.size();
  }
  for (const GroupNode& at : group_.nodes) {
    if (at.place == Place::kKept) StoreOutputs(at, /*compute=*/!IsReduction(at.node));
  }
}

GroupLowering::Values GroupLowering::FoldPartials() {
  Values init;
  std::vector<Fold> folds;
  for (const auto& [fold, phase] : sinks_) {
    folds.push_back(fold);
    init.insert(init.end(), fold.init.begin(), fold.init.end());
  }
  if (probing()) {
    Values tuple;
    for (const Fold& fold : folds) tuple.insert(tuple.end(), probed_[fold.node].begin(), probed_[fold.node].end());
    return tuple;
  }
  if (stage_ == Stage::kMain) return LoadPartials(folds, syms_.Const(0), loop::kNone);
  if (!grouped_.empty()) {
    const Sym group = b_->BeginReduce(AxisKind::kSerial, syms_.Const(kFinishGroups), 1, 1, init);
    const Sym at = syms_.Add(syms_.Mul(group, syms_.Const(loop::kWarp)), vector_axis_);
    Values yields;
    for (const loop::BufferId buffer : grouped_) yields.push_back(b_->Load(buffer, at));
    return b_->EndReduce(yields, CombineAll(folds));
  }
  const bool threads = schedule_.on_gpu() && schedule_.dims.empty();
  const Sym chunk =
      b_->BeginReduce(threads ? AxisKind::kThread : AxisKind::kSerial, chunks_, threads ? schedule_.width : 1,
                      schedule_.on_gpu() ? schedule_.accumulators : 1, init);
  const Values yields = LoadPartials(folds, chunk, loop::kNone);
  return b_->EndReduce(yields, CombineAll(folds));
}

// The tuple of a chunk at the current point; where `mask` says no, the folds' initial values.
GroupLowering::Values GroupLowering::LoadPartials(std::span<const Fold> folds, Sym chunk, loop::ValueId mask) {
  const Sym at = PartialPosition(chunk);
  Values tuple;
  for (const Fold& fold : folds) {
    const loop::Builder::OriginScope origin(*b_, fold.node);
    for (size_t k = 0; k < fold.partials.size(); ++k) {
      const loop::ValueId other = mask == loop::kNone ? loop::kNone : fold.init[k];
      tuple.push_back(b_->Load(fold.partials[k], at, mask, other));
    }
  }
  return tuple;
}

// Of a GPU, the whole kernel: a block has a warp's worth of neighbouring points. Its warps share the chunks of these,
// what each warp comes to meets in shared memory, and one warp folds that. Returns the parallel extent.
Sym GroupLowering::FinishInGroups() {
  const size_t last = NumOuter() - 1;
  Sym count = syms_.Const(1);
  std::vector<Sym> extents;
  for (size_t i = 0; i < last; ++i) {
    extents.push_back(Extent(schedule_.dims[i]));
    count = syms_.Mul(count, extents.back());
  }
  const Sym inner = Extent(schedule_.dims[last]), warp = syms_.Const(loop::kWarp), groups = syms_.Const(kFinishGroups);
  const Sym blocks = syms_.CeilDiv(inner, warp), extent = syms_.Mul(count, blocks);
  const Sym p = Open(AxisKind::kParallel, extent, 1);
  AddPartials(loop::Access::kRead);
  const Index outer = Unravel(syms_, syms_.FloorDiv(p, blocks), extents);
  for (size_t i = 0; i < last; ++i) SetIndex(schedule_.dims[i], outer[i]);
  const Sym base = syms_.Mul(syms_.Mod(p, blocks), warp);
  const Sym points = syms_.ProvablyDivisible(inner, warp) ? warp : syms_.Min(warp, syms_.Sub(inner, base));

  Values init;
  std::vector<Fold> folds;
  for (const auto& [fold, phase] : sinks_) {
    folds.push_back(fold);
    init.insert(init.end(), fold.init.begin(), fold.init.end());
  }
  for (const loop::ValueId value : init) {
    grouped_.push_back(AddScratch(b_->TypeOf(value), kFinishGroups * loop::kWarp));
  }
  const Sym thread = Open(AxisKind::kVector, syms_.Mul(groups, warp), schedule_.width);
  // A thread beyond the last point does its neighbour's work again.
  const Sym point = syms_.Min(syms_.Mod(thread, warp), syms_.Sub(points, syms_.Const(1)));
  SetIndex(schedule_.dims[last], syms_.Add(base, point));
  const Sym round = b_->BeginReduce(AxisKind::kSerial, syms_.CeilDiv(chunks_, groups), 1, schedule_.accumulators, init);
  const Sym chunk = syms_.Add(syms_.Mul(round, groups), syms_.FloorDiv(thread, warp));
  loop::ValueId there = loop::kNone;
  if (!syms_.ProvablyDivisible(chunks_, groups)) there = b_->Apply(loop::Op::kLt, b_->Index(chunk), b_->Index(chunks_));
  const Values sums = b_->EndReduce(LoadPartials(folds, chunk, there), CombineAll(folds));
  for (size_t k = 0; k < grouped_.size(); ++k) b_->Store(grouped_[k], thread, sums[k]);
  CloseLoops(1);
  b_->Barrier();
  vector_axis_ = Open(AxisKind::kVector, points, schedule_.width);
  SetIndex(schedule_.dims[last], syms_.Add(base, vector_axis_));
  FinishSinks();
  return extent;
}

}  // namespace kiln
