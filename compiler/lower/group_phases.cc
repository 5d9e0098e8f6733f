// The phases of a kernel: what is computed in which loop.
#include <algorithm>
#include <utility>

#include "compiler/lower/group_lowering.h"

namespace kiln {

using loop::AxisKind;

// The last-level cache that a core has to itself or shares with a few.
constexpr int64_t kCacheBytes = 32 << 20;

// Index into a tensor of `sizes` at the current point of the dims that count for `place`.
Index GroupLowering::Here(Place place, std::span<const Sym> sizes) {
  Index from, index;
  for (size_t d = 0; d < group_.space.size(); ++d) {
    if (place == Place::kOuter && group_.reduced[d]) continue;
    if (place == Place::kKept && group_.sunk[d]) continue;
    from.push_back(group_.space[d]);
    index.push_back(at_[d]);
  }
  return Reindex(syms_, index, from, sizes);
}

void GroupLowering::RunPhases() {
  if (group_.ordered) return RunOrdered();
  if (!probing() && FoldsRows()) FindKeptRows();
  uint32_t last = 0;
  for (const GroupNode& at : group_.nodes) last = std::max(last, at.phase);
  for (uint32_t phase = 0; phase <= last; ++phase) {
    OuterNodes(phase);
    if (probing()) e_->TakeLoads();
    Loop(phase);
    if (probing()) loads_.push_back(e_->TakeLoads());
  }
}

// Outer nodes that can be computed before loop `phase`, stores of theirs, and sinks that fold them.
void GroupLowering::OuterNodes(uint32_t phase) {
  for (const GroupNode& at : group_.nodes) {
    if (at.place == Place::kOuter && at.phase == phase) StoreOutputs(at, /*compute=*/!IsReduction(at.node));
  }
  if (!group_.sinks_outer) return;
  for (const Fold& sink : SinksOf(phase)) Sink(sink, Place::kOuter);
}

// Nobody will read it from a cache. (What stands in another's memory was in one to be read.)
bool GroupLowering::OutgrowsCaches(ValueId v) const {
  const auto reused = [&](const Reuse& pair) { return pair.result == v; };
  if (std::any_of(reuse_.begin(), reuse_.end(), reused)) return false;
  const std::optional<int64_t> size = syms_.AsConst(StorageSize(syms_, *graph_.type(v)));
  return size && *size >= kCacheBytes / ByteSize(graph_.type(v)->dtype);
}

void GroupLowering::StoreOutputs(const GroupNode& at, bool compute) {
  const loop::Builder::OriginScope origin(*b_, at.node);
  const Node& node = graph_.nodes()[at.node];
  for (uint32_t r = 0; r < node.num_results; ++r) {
    const ValueId v = node.first_result + r;
    if (graph_.type(v) == nullptr) continue;
    const bool output = IsOutput(v);
    if (!output && !compute) continue;
    const Index index = Here(at.place, graph_.type(v)->sizes);
    const loop::ValueId element = e_->At(v, index);
    if (output) e_->Store(v, index, element, OutgrowsCaches(v));
  }
}

// Full nodes whose outputs loop `phase` stores, and the reductions that it folds.
void GroupLowering::Loop(uint32_t phase) {
  std::vector<GroupNode> stores;
  std::vector<Fold> folds;
  for (const GroupNode& at : group_.nodes) {
    if (at.place == Place::kFull && at.phase == phase && HasOutput(at.node)) stores.push_back(at);
    if (at.place == Place::kOuter && IsReduction(at.node) && at.phase == phase + 1) {
      const loop::Builder::OriginScope origin(*b_, at.node);
      folds.push_back(MakeFold(at.node));
      folds.back().init = folds.back().spec.init(*b_);
    }
  }
  const std::vector<Fold> sinks = group_.sinks_outer ? std::vector<Fold>() : SinksOf(phase);
  if (stores.empty() && folds.empty() && sinks.empty()) return;
  if (!folds.empty() || (!sinks.empty() && schedule_.sink == Schedule::Sink::kInside)) {
    FoldLoop(phase, stores, folds, sinks);
  } else {
    PlainLoop(phase, stores, sinks);
  }
}

void GroupLowering::PlainLoop(uint32_t phase, const std::vector<GroupNode>& stores, std::span<const Fold> sinks) {
  const int depth = open_;
  if (!probing()) OpenInner(std::span(schedule_.dims).subspan(NumOuter()));
  e_->OpenScope();
  LoadRows(phase);
  for (const GroupNode& at : stores) StoreOutputs(at, /*compute=*/true);
  for (const Fold& sink : sinks) Sink(sink, Place::kFull);
  StoreRows(phase);
  e_->CloseScope();
  CloseLoops(depth);
}

GroupLowering::Fold GroupLowering::MakeFold(NodeId n) {
  return {.node = n, .spec = graph_.nodes()[n].def->reduce(Call(graph_, graph_.nodes()[n]))};
}

// All reductions of one loop are one tuple.
loop::Builder::Combine GroupLowering::CombineAll(std::span<const Fold> folds) {
  return [folds](loop::Builder& b, std::span<const loop::ValueId> x, std::span<const loop::ValueId> y) {
    Values all;
    for (const Fold& fold : folds) {
      const loop::Builder::OriginScope origin(b, fold.node);
      const size_t first = all.size(), width = fold.init.size();
      const Values part = fold.spec.combine(b, x.subspan(first, width), y.subspan(first, width));
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  };
}

// Either the sinks are folded here, in registers (kInside: there are no row reductions), or they go to memory on the
// way.
void GroupLowering::FoldLoop(uint32_t phase, const std::vector<GroupNode>& stores, std::span<const Fold> folds,
                             std::span<const Fold> sinks) {
  const bool inside = schedule_.sink == Schedule::Sink::kInside;
  const std::span<const Fold> here = inside ? sinks : folds;
  Values init;
  for (const Fold& fold : here) init.insert(init.end(), fold.init.begin(), fold.init.end());
  const Values totals = FoldDims(probing() ? 0 : NumOuter(), init, CombineAll(here), [&] {
    LoadRows(phase);
    for (const GroupNode& at : stores) StoreOutputs(at, /*compute=*/true);
    if (!inside) {
      for (const Fold& sink : sinks) Sink(sink, Place::kFull);
    }
    Values tuple;
    for (const Fold& fold : here) {
      const Values part = Lift(fold, Place::kFull);
      tuple.insert(tuple.end(), part.begin(), part.end());
    }
    StoreRows(phase);
    return tuple;
  });
  if (inside) return StorePartials(sinks, totals);
  size_t first = 0;
  for (const Fold& fold : folds) {
    Results(fold, std::span(totals).subspan(first, fold.init.size()), Place::kOuter);
    first += fold.init.size();
  }
}

// Of the operand, which stands at `place`.
GroupLowering::Values GroupLowering::Lift(const Fold& fold, Place place) {
  const loop::Builder::OriginScope origin(*b_, fold.node);
  const Call call(graph_, graph_.nodes()[fold.node]);
  const loop::ValueId element = e_->At(call.value(0), Here(place, call.type(0).sizes));
  return fold.spec.lift(*b_, b_->Cast(fold.spec.accumulate, element));
}

// Loops over dims[i …], the reduced ones.
GroupLowering::Values GroupLowering::FoldDims(size_t i, std::span<const loop::ValueId> init,
                                              const loop::Builder::Combine& combine,
                                              const std::function<Values()>& body) {
  if (probing() || i == schedule_.dims.size()) {
    // A loop knows nothing of what was computed in another one.
    e_->OpenScope();
    Values yields = body();
    e_->CloseScope();
    return yields;
  }
  const bool innermost = !schedule_.columns && i + 1 == schedule_.dims.size();
  const AxisKind kind = innermost ? VectorKind() : AxisKind::kSerial;
  Sym extent = Extent(schedule_.dims[i]), base = syms_.Const(0);
  if (schedule_.sink == Schedule::Sink::kInside && i == NumOuter()) {
    base = syms_.Mul(chunk_, chunk_length_);
    extent = ChunkExtent(extent);
  }
  const bool serial = kind == AxisKind::kSerial;
  // Columns on a GPU: several rows are on their way at a time.
  const bool accumulates = !serial || (schedule_.columns && schedule_.on_gpu() && i + 1 == schedule_.dims.size());
  const Sym axis = b_->BeginReduce(kind, extent, serial ? 1 : schedule_.width, accumulates ? schedule_.accumulators : 1,
                                   init, kind == AxisKind::kThread ? schedule_.lanes : 1);
  SetIndex(schedule_.dims[i], syms_.Add(base, axis));
  e_->OpenScope();
  const Values yields = FoldDims(i + 1, init, combine, body);
  e_->CloseScope();
  return b_->EndReduce(yields, combine);
}

// Makes a reduction's results known at the current point of the dims that it does not fold.
void GroupLowering::Results(const Fold& fold, std::span<const loop::ValueId> totals, Place place) {
  const loop::Builder::OriginScope origin(*b_, fold.node);
  const Node& node = graph_.nodes()[fold.node];
  const Sym count = NumPoints(place == Place::kKept ? SinkDims() : group_.reduced);
  const Values results = fold.spec.finish(*b_, totals, count);
  for (uint32_t r = 0; r < node.num_results && r < results.size(); ++r) {
    const ValueId v = node.first_result + r;
    if (graph_.type(v) == nullptr) continue;
    const TensorType& type = *graph_.type(v);
    e_->Define(v, Here(place, type.sizes), b_->Cast(type.dtype, results[r]));
  }
}

}  // namespace kiln
