// Row values that a later loop over the row reads again instead of computing them again.
#include <algorithm>

#include "compiler/lower/group_lowering.h"
#include "compiler/lower/inline.h"

namespace kiln {
namespace {

// Of the second-level cache, beside the row at hand.
constexpr int64_t kMaxNextRowBytes = 256 << 10;

}  // namespace

void GroupLowering::FindCostly() {
  for (const GroupNode& at : group_.nodes) {
    if (at.place == Place::kFull && !MathFunctions(graph_, graph_.nodes()[at.node]).empty()) costly_.insert(at.node);
  }
}

// Costly full nodes that several of the row's loops need: kept from the first of them on.
void GroupLowering::FindKeptRows() {
  const std::optional<int64_t> length = syms_.AsConst(NumPoints(group_.reduced));
  if (!length || schedule_.columns || schedule_.sink == Schedule::Sink::kInside) return;
  absl::flat_hash_map<NodeId, const GroupNode*> full;
  uint32_t last = 0;
  for (const GroupNode& at : group_.nodes) {
    if (at.place == Place::kFull) full.emplace(at.node, &at);
    last = std::max(last, at.phase);
  }
  absl::flat_hash_map<NodeId, uint32_t> first;  // costly nodes, and the loop that computes them
  int64_t bytes = 0;
  for (uint32_t phase = 0; phase <= last; ++phase) {
    std::vector<NodeId> ahead = NeededIn(phase);
    absl::flat_hash_set<NodeId> seen;
    while (!ahead.empty()) {
      const NodeId n = ahead.back();
      ahead.pop_back();
      const auto found = full.find(n);
      // An operand of a later phase is named, but not read: a slice_scatter that covers all of it.
      if (found == full.end() || found->second->phase > phase || !seen.insert(n).second) continue;
      const auto it = first.find(n);
      if (it != first.end() && KeepRow(n, it->second, phase, *length, bytes)) continue;
      if (it == first.end() && costly_.contains(n)) first.emplace(n, phase);
      ForEachValue(std::span<const Arg>(graph_.nodes()[n].args), [&](ValueId v) {
        if (const NodeId p = graph_.producer(aliases_.root(v)); p != kNoNode) ahead.push_back(p);
      });
    }
  }
  KeepLoads(*length, bytes);
}

// What several loops load at the row's own points: each element of a row is read from memory once.
void GroupLowering::KeepLoads(int64_t length, int64_t& bytes) {
  for (uint32_t phase = 0; phase < probe_->loads.size(); ++phase) {
    for (const MemoryAccess& load : probe_->loads[phase]) {
      bool own = true;  // not shared by rows
      for (const Sym axis : probe_->axes) own &= !syms_.AsVar(axis) || syms_.Mentions(load.index, *syms_.AsVar(axis));
      if (!own) continue;
      const auto it =
          std::find_if(kept_loads_.begin(), kept_loads_.end(), [&](const KeptLoad& kept) { return kept.load == load; });
      if (it == kept_loads_.end()) {
        kept_loads_.push_back({.load = load, .from = phase});
      } else if (it->from != phase && (it->loops.empty() || it->loops.back() != phase)) {
        it->loops.push_back(phase);
      }
    }
  }
  std::erase_if(kept_loads_, [](const KeptLoad& kept) { return kept.loops.empty(); });
  // A copy pays as long as the row's operands, its results and what is kept are in cache together.
  if (!schedule_.on_gpu()) bytes += RowTraffic(length);
  for (KeptLoad& kept : kept_loads_) {
    const DType dtype = graph_.type(kept.load.root)->dtype;
    if (bytes + length * ByteSize(dtype) > schedule_.scratch_bytes) continue;
    bytes += length * ByteSize(dtype);
    kept.scratch = AddScratch(dtype, length, /*own=*/true);
  }
  std::erase_if(kept_loads_, [](const KeptLoad& kept) { return kept.scratch == loop::kNone; });
}

// Bytes of a row's distinct operands and results in memory.
int64_t GroupLowering::RowTraffic(int64_t length) const {
  int64_t bytes = 0;
  std::vector<MemoryAccess> seen;
  for (const MemoryAccess& access : probe_->accesses) {
    if (access.root == kNoValue || std::find(seen.begin(), seen.end(), access) != seen.end()) continue;
    bool along = false;
    for (size_t d = 0; d < group_.space.size(); ++d) {
      const std::optional<Var> axis = syms_.AsVar(probe_->axes[d]);
      along |= group_.reduced[d] && axis && syms_.Mentions(access.index, *axis);
    }
    if (!along) continue;
    seen.push_back(access);
    bytes += length * ByteSize(graph_.type(access.root)->dtype);
  }
  return bytes;
}

// Nodes whose values loop `phase` stores or folds.
std::vector<NodeId> GroupLowering::NeededIn(uint32_t phase) const {
  std::vector<NodeId> needed;
  for (const GroupNode& at : group_.nodes) {
    const bool folded = IsReduction(at.node) && at.phase == phase + (at.place == Place::kOuter ? 1 : 0);
    if (at.place == Place::kFull && at.phase == phase && HasOutput(at.node)) needed.push_back(at.node);
    if (!folded) continue;
    const NodeId p = graph_.producer(aliases_.root(Call(graph_, graph_.nodes()[at.node]).value(0)));
    if (p != kNoNode) needed.push_back(p);
  }
  return needed;
}

// Loop `phase` reads what loop `from` has computed, if there is room.
bool GroupLowering::KeepRow(NodeId n, uint32_t from, uint32_t phase, int64_t length, int64_t& bytes) {
  auto it = kept_rows_.find(n);
  if (it == kept_rows_.end()) {
    const Node& node = graph_.nodes()[n];
    KeptRow row{.from = from};
    int64_t more = 0;
    for (uint32_t r = 0; r < node.num_results; ++r) {
      if (const TensorType* type = graph_.type(node.first_result + r)) more += length * ByteSize(type->dtype);
    }
    if (bytes + more > schedule_.scratch_bytes) return false;
    bytes += more;
    for (uint32_t r = 0; r < node.num_results; ++r) {
      const TensorType* type = graph_.type(node.first_result + r);
      row.scratch.push_back(type != nullptr ? AddScratch(type->dtype, length, /*own=*/true) : loop::kNone);
    }
    it = kept_rows_.emplace(n, std::move(row)).first;
  }
  it->second.loops.push_back(phase);
  return true;
}

template <typename F>
void GroupLowering::ForEachKept(F&& f) {
  for (const GroupNode& at : group_.nodes) {
    const auto it = kept_rows_.find(at.node);
    if (it == kept_rows_.end()) continue;
    for (size_t r = 0; r < it->second.scratch.size(); ++r) {
      const ValueId v = graph_.nodes()[at.node].first_result + static_cast<ValueId>(r);
      if (it->second.scratch[r] != loop::kNone)
        f(it->second, v, Here(Place::kFull, graph_.type(v)->sizes), it->second.scratch[r]);
    }
  }
}

// Elements that this loop may overwrite are read first.
void GroupLowering::LoadReused(uint32_t phase) {
  for (const Reuse& pair : reuse_) {
    for (const MemoryAccess& load : probe_->loads[phase]) {
      if (load.root == pair.dying) e_->Hold(load.root, AtCurrentPoint(load.index));
    }
  }
}

// What the loop before this one was the first to read, one row on, if this one has to compute for long meanwhile.
void GroupLowering::PrefetchNextRow(uint32_t phase) {
  if (probing() || phase == 0 || schedule_.columns || schedule_.on_gpu() || NumOuter() == 0) return;
  const auto costly = [&](const GroupNode& at) { return at.phase == phase && costly_.contains(at.node); };
  if (std::none_of(group_.nodes.begin(), group_.nodes.end(), costly)) return;
  const std::optional<int64_t> length = syms_.AsConst(NumPoints(group_.reduced));
  const std::vector<int>& rows = schedule_.dims[NumOuter() - 1];
  if (rows.empty()) return;  // there is one, along which sinks would go
  const int row = rows.back();
  const std::optional<Var> axis = syms_.AsVar(probe_->axes[static_cast<size_t>(row)]);
  if (!length || !axis || RowTraffic(*length) > kMaxNextRowBytes) return;
  std::vector<MemoryAccess> seen;
  for (uint32_t p = 0; p + 1 < phase; ++p) seen.insert(seen.end(), probe_->loads[p].begin(), probe_->loads[p].end());
  for (const MemoryAccess& load : probe_->loads[phase - 1]) {
    if (!syms_.Mentions(load.index, *axis) || std::find(seen.begin(), seen.end(), load) != seen.end()) continue;
    seen.push_back(load);
    PrefetchAt(load, row, 1);
  }
}

void GroupLowering::LoadRows(uint32_t phase) {
  ForEachKept([&](const KeptRow& row, ValueId v, const Index& index, loop::BufferId scratch) {
    if (std::find(row.loops.begin(), row.loops.end(), phase) == row.loops.end()) return;
    const loop::Builder::OriginScope origin(*b_, graph_.producer(v));
    e_->Define(v, index, b_->Load(scratch, Position(group_.reduced)));
  });
  for (const KeptLoad& kept : kept_loads_) {
    if (std::find(kept.loops.begin(), kept.loops.end(), phase) == kept.loops.end()) continue;
    e_->Stage(kept.load.root, AtCurrentPoint(kept.load.index), kept.scratch, Position(group_.reduced));
  }
  LoadReused(phase);
  PrefetchNextRow(phase);
}

void GroupLowering::StoreRows(uint32_t phase) {
  ForEachKept([&](const KeptRow& row, ValueId v, const Index& index, loop::BufferId scratch) {
    if (row.from != phase) return;
    const loop::Builder::OriginScope origin(*b_, graph_.producer(v));
    b_->Store(scratch, Position(group_.reduced), e_->At(v, index));
  });
  for (const KeptLoad& kept : kept_loads_) {
    if (kept.from != phase) continue;
    b_->Store(kept.scratch, Position(group_.reduced), e_->LoadFlat(kept.load.root, AtCurrentPoint(kept.load.index)));
  }
}

}  // namespace kiln
