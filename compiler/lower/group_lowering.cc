#include "compiler/lower/group_lowering.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "compiler/loop/mutate.h"
#include "compiler/loop/text.h"

namespace kiln {

GroupLowering::GroupLowering(const Graph& graph, const Aliases& aliases, const Group& group, const Schedule& schedule,
                             Stage stage)
    : graph_(graph), syms_(graph.syms()), aliases_(aliases), group_(group), schedule_(schedule), stage_(stage) {
  // Before the kernel has numbers: this too declares variables in the graph's context.
  if (stage == Stage::kMain && FoldsRows()) FindCostly();
  kernel_.syms = graph.shared_syms();
  kernel_.first_axis = syms_.NextIndex(VarKind::kAxis);
  kernel_.first_value = syms_.NextIndex(VarKind::kValue);
  // The main kernel's values are in memory when the partial results are folded.
  for (const GroupNode& at : group.nodes) {
    if (stage != Stage::kFinish || at.place == Place::kKept) local_.insert(at.node);
  }
  b_ = std::make_unique<loop::Builder>(kernel_, kernel_.body);
  e_ = std::make_unique<Evaluator>(graph, aliases, *b_, local_);
  at_.assign(group.space.size(), syms_.Const(0));
  FindSinks();
}

absl::StatusOr<LoweredKernel> GroupLowering::Lower() {
  LoweredKernel lowered;
  if (stage_ == Stage::kFinish && schedule_.on_gpu() && !schedule_.dims.empty()) {
    lowered.extent = FinishInGroups();
  } else if (stage_ == Stage::kFinish) {
    lowered.extent = OpenOuter();
    AddPartials(loop::Access::kRead);
    FinishSinks();
  } else {
    if (schedule_.sink != Schedule::Sink::kNone) {
      lowered.extent = OpenChunks();
    } else {
      lowered.extent = schedule_.tiled >= 0 ? OpenTiles() : OpenOuter();
    }
    RunPhases();
    StoreOwn();
    if (schedule_.sink == Schedule::Sink::kOutside && syms_.IsConst(chunks_, 1)) {
      CloseLoops(1);
      OpenInner(KeptDims());
      FinishSinks();
      finished_ = true;
    }
  }
  CloseLoops();
  if (absl::Status status = Finish(); !status.ok()) return status;
  lowered.grain = Grain();
  lowered.buffers.assign(e_->buffers().begin(), e_->buffers().end());
  b_.reset();
  for (const uint32_t old : loop::Normalize(kernel_)) lowered.sizes.push_back(syms_.Size(old));
  lowered.kernel = std::move(kernel_);
  return lowered;
}

void GroupLowering::After(const GroupLowering& main) {
  chunks_ = main.chunks_;
  chunk_length_ = main.chunk_length_;
}

absl::StatusOr<Probe> GroupLowering::Run() {
  Probe probe;
  for (size_t d = 0; d < group_.space.size(); ++d) {
    if (!syms_.IsConst(group_.space[d], 1))
      at_[d] = syms_.Axis(kernel_.first_axis + kernel_.num_axes++, group_.space[d]);
  }
  probe.axes = at_;
  MakeInits();
  RunPhases();
  FinishSinks();
  probe.loads = std::move(loads_);
  if (absl::Status status = Finish(); !status.ok()) return status;
  loop::Walk(std::as_const(kernel_.body), [&](const loop::Stmt& stmt) {
    if (const auto* let = std::get_if<loop::Let>(&stmt.node)) {
      if (let->op == loop::Op::kLoad) {
        const bool masked = let->mask != loop::kNone;
        probe.accesses.push_back({e_->buffers()[let->buffer].root, let->index, false, masked});
      }
      if (let->op == loop::Op::kIndex) probe.accesses.push_back({kNoValue, let->index, false});
    } else if (const auto* store = std::get_if<loop::Store>(&stmt.node)) {
      probe.accesses.push_back({e_->buffers()[store->buffer].root, store->index, true});
    }
  });
  return probe;
}

absl::Status GroupLowering::Finish() {
  if (!b_->status().ok()) return b_->status();
  if (!named_.empty()) loop::Walk(kernel_.body, [&](loop::Stmt& stmt) { ReplaceNames(stmt); });
  return e_->status();
}

void GroupLowering::ReplaceNames(loop::Stmt& stmt) {
  loop::ForEachSym(stmt, [&](Sym& s) {
    s = syms_.Substitute(s, [&](Var var) -> std::optional<Sym> {
      const auto it = named_.find(var);
      return it == named_.end() ? std::nullopt : std::optional(it->second);
    });
  });
}

void GroupLowering::UseReuse(std::span<const Reuse> reuse) {
  reuse_ = reuse;
  for (const Reuse& pair : reuse) e_->Share(pair);
}

bool GroupLowering::IsOutput(ValueId v) const {
  return std::find(group_.outputs.begin(), group_.outputs.end(), v) != group_.outputs.end();
}

bool GroupLowering::HasOutput(NodeId n) const {
  const Node& node = graph_.nodes()[n];
  for (uint32_t r = 0; r < node.num_results; ++r) {
    if (IsOutput(node.first_result + r)) return true;
  }
  return false;
}

}  // namespace kiln
