#include "compiler/lower/nest.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/loop/builder.h"
#include "compiler/loop/mutate.h"
#include "compiler/loop/text.h"
#include "compiler/lower/evaluator.h"
#include "compiler/lower/node_element.h"
#include "compiler/ops/op_def.h"

namespace kiln {
namespace {

using loop::AxisKind;

// Writes one group into a kernel. With a schedule: the loops that it asks for. Without (a probe): straight-line code over free
// axes, one a dim of the space, in which every access is affine in those axes where it can be.
class GroupLowering {
 public:
  GroupLowering(const Graph& graph, const Aliases& aliases, const Group& group, const Schedule* schedule)
      : graph_(graph), syms_(graph.syms()), aliases_(aliases), group_(group), schedule_(schedule) {
    kernel_.syms = graph.shared_syms();
    kernel_.first_axis = syms_.NextIndex(VarKind::kAxis);
    kernel_.first_value = syms_.NextIndex(VarKind::kValue);
    for (const GroupNode& gn : group.nodes) local_.insert(gn.node);
    b_ = std::make_unique<loop::Builder>(kernel_, kernel_.body);
    e_ = std::make_unique<Evaluator>(graph, aliases, *b_, local_);
    at_.resize(group.space.size());
  }

  absl::StatusOr<LoweredKernel> Lower() {
    const Sym outer = OpenOuter();
    RunPhases();
    CloseLoops();
    if (absl::Status status = Finish(); !status.ok()) return status;
    LoweredKernel lowered;
    lowered.extent = outer;
    lowered.grain = Grain();
    lowered.buffers.assign(e_->buffers().begin(), e_->buffers().end());
    return Detach(std::move(lowered));
  }

  absl::StatusOr<Probe> Run() {
    Probe probe;
    for (size_t d = 0; d < group_.space.size(); ++d) {
      if (!syms_.IsConst(group_.space[d], 1)) at_[d] = syms_.Axis(kernel_.first_axis + kernel_.num_axes++, group_.space[d]);
    }
    probe.axes = at_;
    RunPhases();
    if (absl::Status status = Finish(); !status.ok()) return status;
    loop::Walk(std::as_const(kernel_.body), [&](const loop::Stmt& stmt) {
      ++probe.operations;
      if (const auto* let = std::get_if<loop::Let>(&stmt.node)) {
        if (let->op == loop::Op::kLoad) probe.accesses.push_back({e_->buffers()[let->buffer], let->index, false});
        if (let->op == loop::Op::kIndex) probe.accesses.push_back({kNoValue, let->index, false});
      } else if (const auto* store = std::get_if<loop::Store>(&stmt.node)) {
        probe.accesses.push_back({e_->buffers()[store->buffer], store->index, true});
      }
    });
    return probe;
  }

 private:
  bool probing() const { return schedule_ == nullptr; }

  absl::Status Finish() {
    if (!b_->status().ok()) return b_->status();
    if (!named_.empty()) loop::Walk(kernel_.body, [&](loop::Stmt& stmt) { ReplaceNames(stmt); });
    return e_->status();
  }

  void ReplaceNames(loop::Stmt& stmt) {
    loop::ForEachSym(stmt, [&](Sym& s) {
      s = syms_.Substitute(s, [&](Var var) -> std::optional<Sym> {
        const auto it = named_.find(var);
        return it == named_.end() ? std::nullopt : std::optional(it->second);
      });
    });
  }

  // --- loops ---

  Sym Extent(const std::vector<int>& dims) {
    Sym extent = syms_.Const(1);
    for (const int d : dims) extent = syms_.Mul(extent, group_.space[d]);
    return extent;
  }

  // Sets the indices of the merged dims from the loop's own. An index that is an expression gets a name until the end: taken apart
  // and put together again by views a name comes out as itself, and it has the extent by which fusion judged.
  void SetIndex(const std::vector<int>& dims, Sym index) {
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

  bool HasReduction() const { return group_.has_reduction(); }
  size_t NumOuter() const { return static_cast<size_t>(schedule_->num_outer); }
  // The vector axis belongs to the parallel part: pointwise groups, and columns.
  bool VectorIsOuter() const { return !schedule_->dims.empty() && (!HasReduction() || schedule_->columns); }

  // Opens the parallel axis, and the vector axis if it is not reduced. Returns the parallel extent.
  Sym OpenOuter() {
    for (Sym& index : at_) index = syms_.Const(0);
    const size_t parallel = NumOuter() - (VectorIsOuter() ? 1 : 0);
    Sym count = syms_.Const(1);
    std::vector<Sym> extents;
    for (size_t i = 0; i < parallel; ++i) {
      extents.push_back(Extent(schedule_->dims[i]));
      count = syms_.Mul(count, extents.back());
    }
    Sym inner = syms_.Const(1), blocks = syms_.Const(1);
    const Sym block = syms_.Const(schedule_->block);
    if (VectorIsOuter()) {
      inner = Extent(schedule_->dims[parallel]);
      if (schedule_->block > 0) blocks = syms_.CeilDiv(inner, block);
    }
    const Sym extent = syms_.Mul(count, blocks);
    Sym p = Open(AxisKind::kParallel, extent, 1);
    const Index outer = Unravel(syms_, syms_.FloorDiv(p, blocks), extents);
    for (size_t i = 0; i < parallel; ++i) SetIndex(schedule_->dims[i], outer[i]);
    if (!VectorIsOuter()) return extent;
    Sym base = syms_.Const(0);
    if (!syms_.IsConst(blocks, 1)) {
      base = syms_.Mul(syms_.Mod(p, blocks), block);
      inner = syms_.ProvablyDivisible(inner, block) ? block : syms_.Min(block, syms_.Sub(inner, base));
    }
    SetIndex(schedule_->dims[parallel], syms_.Add(base, Open(AxisKind::kVector, inner, schedule_->width)));
    return extent;
  }

  Sym Open(AxisKind kind, Sym extent, uint32_t width) {
    if (kind == AxisKind::kVector && width == 1) kind = AxisKind::kSerial;
    const Sym axis = b_->BeginFor(kind, extent, width, kind == AxisKind::kParallel ? Grain() : Sym{});
    e_->OpenScope();
    ++open_;
    return syms_.IsConst(extent, 1) ? syms_.Const(0) : axis;
  }

  void CloseLoops(int down_to = 0) {
    for (; open_ > down_to; --open_) {
      e_->CloseScope();
      b_->EndFor();
    }
  }

  // Parallel iterations that make schedule_->grain_work element operations.
  Sym Grain() {
    Sym points = syms_.Const(1);
    for (size_t i = 0; i < schedule_->dims.size(); ++i) {
      const bool parallel = i < NumOuter() - (VectorIsOuter() ? 1 : 0);
      if (!parallel) points = syms_.Mul(points, syms_.Max(Extent(schedule_->dims[i]), syms_.Const(1)));
    }
    if (VectorIsOuter() && schedule_->block > 0) points = syms_.Min(points, syms_.Const(schedule_->block));
    const auto nodes = static_cast<int64_t>(group_.nodes.size());
    return syms_.CeilDiv(syms_.Const(std::max<int64_t>(1, schedule_->grain_work / nodes)), points);
  }

  // --- phases ---

  // Index into a tensor of `sizes` at the current point: of the full space, or of its dims that are not reduced.
  Index Here(bool full, std::span<const Sym> sizes) {
    Index from, index;
    for (size_t d = 0; d < group_.space.size(); ++d) {
      if (!full && group_.reduced[d]) continue;
      from.push_back(group_.space[d]);
      index.push_back(at_[d]);
    }
    return Reindex(syms_, index, from, sizes);
  }

  bool IsReduction(NodeId n) const { return aliases_.kind(n) == NodeKind::kReduction; }

  void RunPhases() {
    uint32_t last = 0;
    for (const GroupNode& gn : group_.nodes) last = std::max(last, gn.phase);
    for (uint32_t phase = 0; phase <= last; ++phase) {
      ReducedNodes(phase);
      Loop(phase);
    }
  }

  // Nodes over the reduced space that can be computed before loop `phase`, and stores of theirs.
  void ReducedNodes(uint32_t phase) {
    for (const GroupNode& gn : group_.nodes) {
      if (gn.full || gn.phase != phase) continue;
      StoreOutputs(gn, /*compute=*/!IsReduction(gn.node));
    }
  }

  bool IsOutput(ValueId v) const {
    return std::find(group_.outputs.begin(), group_.outputs.end(), v) != group_.outputs.end();
  }

  void StoreOutputs(const GroupNode& gn, bool compute) {
    const Node& node = graph_.nodes()[gn.node];
    for (uint32_t r = 0; r < node.num_results; ++r) {
      const ValueId v = node.first_result + r;
      if (graph_.type(v) == nullptr) continue;
      const bool output = IsOutput(v);
      if (!output && !compute) continue;
      const Index index = Here(gn.full, graph_.type(v)->sizes);
      const loop::ValueId element = e_->At(v, index);
      if (output) e_->Store(v, index, element);
    }
  }

  // Full nodes whose outputs loop `phase` stores, and the reductions that it folds.
  void Loop(uint32_t phase) {
    std::vector<GroupNode> stores;
    std::vector<NodeId> folds;
    for (const GroupNode& gn : group_.nodes) {
      const Node& node = graph_.nodes()[gn.node];
      bool output = false;
      for (uint32_t r = 0; r < node.num_results; ++r) output |= IsOutput(node.first_result + r);
      if (gn.full && gn.phase == phase && output) stores.push_back(gn);
      if (IsReduction(gn.node) && gn.phase == phase + 1) folds.push_back(gn.node);
    }
    if (stores.empty() && folds.empty()) return;
    if (folds.empty()) {
      PlainLoop(stores);
    } else {
      FoldLoop(stores, folds);
    }
  }

  void PlainLoop(const std::vector<GroupNode>& stores) {
    const int depth = open_;
    if (!probing()) {
      for (size_t i = NumOuter(); i < schedule_->dims.size(); ++i) {
        const bool vector = !schedule_->columns && i + 1 == schedule_->dims.size();
        const Sym extent = Extent(schedule_->dims[i]);
        const Sym axis = vector ? Open(AxisKind::kVector, extent, schedule_->width) : Open(AxisKind::kSerial, extent, 1);
        SetIndex(schedule_->dims[i], axis);
      }
    }
    for (const GroupNode& gn : stores) StoreOutputs(gn, /*compute=*/true);
    CloseLoops(depth);
  }

  // --- reductions: all of one phase are one tuple ---

  struct Fold {
    NodeId node = kNoNode;
    ReduceSpec spec;
    size_t first = 0;  // of its accumulators in the tuple
    size_t width = 0;
  };

  void FoldLoop(const std::vector<GroupNode>& stores, const std::vector<NodeId>& nodes) {
    std::vector<Fold> folds;
    std::vector<loop::ValueId> init;
    for (const NodeId n : nodes) {
      Fold fold{.node = n, .spec = graph_.nodes()[n].def->reduce(Call(graph_, graph_.nodes()[n])), .first = init.size()};
      const std::vector<loop::ValueId> identity = fold.spec.init(*b_);
      fold.width = identity.size();
      init.insert(init.end(), identity.begin(), identity.end());
      folds.push_back(std::move(fold));
    }
    const auto combine = [&](loop::Builder& b, std::span<const loop::ValueId> x, std::span<const loop::ValueId> y) {
      std::vector<loop::ValueId> all;
      for (const Fold& fold : folds) {
        const auto part = fold.spec.combine(b, x.subspan(fold.first, fold.width), y.subspan(fold.first, fold.width));
        all.insert(all.end(), part.begin(), part.end());
      }
      return all;
    };
    const std::vector<loop::ValueId> totals = FoldDims(probing() ? 0 : NumOuter(), init, combine, [&] {
      for (const GroupNode& gn : stores) StoreOutputs(gn, /*compute=*/true);
      std::vector<loop::ValueId> tuple;
      for (const Fold& fold : folds) {
        const auto part = Lift(fold);
        tuple.insert(tuple.end(), part.begin(), part.end());
      }
      return tuple;
    });
    for (const Fold& fold : folds) Results(fold, std::span(totals).subspan(fold.first, fold.width));
  }

  std::vector<loop::ValueId> Lift(const Fold& fold) {
    const Call call(graph_, graph_.nodes()[fold.node]);
    const loop::ValueId element = e_->At(call.value(0), Here(true, call.type(0).sizes));
    return fold.spec.lift(*b_, b_->Cast(fold.spec.accumulate, element));
  }

  std::vector<loop::ValueId> FoldDims(size_t i, std::span<const loop::ValueId> init, const loop::Builder::Combine& combine,
                                      const std::function<std::vector<loop::ValueId>()>& body) {
    if (probing() || i == schedule_->dims.size()) return body();
    const bool vector = !schedule_->columns && i + 1 == schedule_->dims.size() && schedule_->width > 1;
    const Sym axis = b_->BeginReduce(vector ? AxisKind::kVector : AxisKind::kSerial, Extent(schedule_->dims[i]),
                                     vector ? schedule_->width : 1, vector ? schedule_->accumulators : 1, init);
    SetIndex(schedule_->dims[i], axis);
    e_->OpenScope();
    const std::vector<loop::ValueId> yields = FoldDims(i + 1, init, combine, body);
    e_->CloseScope();
    return b_->EndReduce(yields, combine);
  }

  void Results(const Fold& fold, std::span<const loop::ValueId> totals) {
    const Node& node = graph_.nodes()[fold.node];
    Sym count = syms_.Const(1);
    for (size_t d = 0; d < group_.space.size(); ++d) {
      if (group_.reduced[d]) count = syms_.Mul(count, group_.space[d]);
    }
    const std::vector<loop::ValueId> results = fold.spec.finish(*b_, totals, count);
    for (uint32_t r = 0; r < node.num_results && r < results.size(); ++r) {
      const ValueId v = node.first_result + r;
      if (graph_.type(v) == nullptr) continue;
      const TensorType& type = *graph_.type(v);
      e_->Define(v, Here(false, type.sizes), b_->Cast(type.dtype, results[r]));
    }
  }

  // --- the finished kernel ---

  absl::StatusOr<LoweredKernel> Detach(LoweredKernel lowered) {
    b_.reset();
    for (const uint32_t old : loop::Normalize(kernel_)) lowered.sizes.push_back(syms_.Size(old));
    lowered.kernel = std::move(kernel_);
    return lowered;
  }

  const Graph& graph_;
  SymContext& syms_;
  const Aliases& aliases_;
  const Group& group_;
  const Schedule* schedule_;
  absl::flat_hash_set<NodeId> local_;
  loop::Kernel kernel_;
  std::unique_ptr<loop::Builder> b_;
  std::unique_ptr<Evaluator> e_;
  Index at_;  // index of each dim of the space at the current point
  absl::flat_hash_map<Var, Sym> named_;  // axes that stand for expressions while the kernel is written
  int open_ = 0;
};

}  // namespace

std::string Schedule::ToString() const {
  std::string text = columns ? "columns" : "rows";
  for (size_t i = 0; i < dims.size(); ++i) {
    absl::StrAppend(&text, i == static_cast<size_t>(num_outer) ? " | " : " ", "(", absl::StrJoin(dims[i], ","), ")");
  }
  absl::StrAppend(&text, " width ", width, " accumulators ", accumulators, " block ", block);
  return text;
}

absl::StatusOr<Probe> ProbeGroup(const Graph& graph, const Aliases& aliases, const Group& group) {
  return GroupLowering(graph, aliases, group, nullptr).Run();
}

absl::StatusOr<LoweredKernel> LowerGroup(const Graph& graph, const Aliases& aliases, const Group& group,
                                         const Schedule& schedule) {
  return GroupLowering(graph, aliases, group, &schedule).Lower();
}

absl::StatusOr<std::vector<OperandAccess>> OperandAccesses(const Graph& graph, const Node& node, const Index& index) {
  std::vector<OperandAccess> accesses;
  if (node.def->reduce) return std::vector<OperandAccess>{{Call(graph, node).value(0), index, false}};
  loop::Kernel scratch;
  scratch.syms = graph.shared_syms();
  scratch.first_axis = graph.syms().NextIndex(VarKind::kAxis);
  scratch.first_value = graph.syms().NextIndex(VarKind::kValue);
  loop::Builder b(scratch, scratch.body);
  NodeElement element(graph, node, index, loop::kNone, b, [&](ValueId value, const Index& at, loop::ValueId mask) {
    accesses.push_back({value, at, mask != loop::kNone});
    return b.ConstBits(graph.type(value)->dtype, 0);
  });
  node.def->lower(element);
  if (!b.status().ok()) return b.status();
  return accesses;
}

}  // namespace kiln
