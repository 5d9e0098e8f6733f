#include "compiler/lower/inline.h"

#include <algorithm>
#include <optional>
#include <set>

#include "compiler/loop/builder.h"
#include "compiler/lower/access.h"
#include "compiler/lower/index.h"
#include "compiler/lower/node_element.h"

namespace kiln {
namespace {

// Nodes computed for one element.
constexpr uint32_t kMaxCost = 8;

class Inliner {
 public:
  Inliner(const Graph& graph, std::span<const ValueId> roots, std::vector<NodeKind>& kinds)
      : graph_(graph),
        roots_(roots),
        kinds_(kinds),
        cost_(kinds.size()),
        operands_(kinds.size()),
        readers_(kinds.size()) {}

  void Run() {
    FindReaders();
    FindReadElsewhere();
    for (NodeId n = 0; n < kinds_.size(); ++n) {
      if (kinds_[n] == NodeKind::kInlined) cost_[n] = 1;
      if (kinds_[n] != NodeKind::kPointwise || !MadeOfMemory(n)) continue;
      // A creation of creations.
      if (operands_[n] == 0 || PaysToReadThrough(n)) kinds_[n] = NodeKind::kInlined;
    }
  }

 private:
  void FindReaders() {
    must_store_.assign(graph_.num_values(), false);
    const auto store = [&](ValueId v) { must_store_[roots_[v]] = true; };
    for (const GraphOutput& out : graph_.outputs()) {
      if (out.kind == GraphOutput::Kind::kValue) store(out.value);
    }
    for (const GraphUpdate& update : graph_.updates()) store(update.value);
    for (NodeId n = 0; n < kinds_.size(); ++n) {
      if (kinds_[n] == NodeKind::kView) continue;
      ForEachValue(std::span<const Arg>(graph_.nodes()[n].args), [&](ValueId v) {
        if (kinds_[n] == NodeKind::kExternal) return store(v);
        const NodeId p = graph_.producer(roots_[v]);
        if (p != kNoNode && (readers_[p].empty() || readers_[p].back() != n)) readers_[p].push_back(n);
      });
    }
  }

  // All operands stand in memory or are inlined, and are few. Sets cost_ and operands_.
  bool MadeOfMemory(NodeId n) {
    uint32_t cost = 1, operands = 0;
    bool ok = true;
    ForEachValue(std::span<const Arg>(graph_.nodes()[n].args), [&](ValueId v) {
      const NodeId p = graph_.producer(roots_[v]);
      if (p == kNoNode || kinds_[p] == NodeKind::kExternal) {
        operands += !graph_.type(v)->sizes.empty();
      } else if (kinds_[p] == NodeKind::kInlined) {
        cost += cost_[p];
        operands += operands_[p];
      } else {
        ok = false;
      }
    });
    cost_[n] = cost;
    operands_[n] = operands;
    return ok && cost <= kMaxCost;
  }

  bool PaysToReadThrough(NodeId n) {
    const Node& node = graph_.nodes()[n];
    if (node.num_results != 1 || must_store_[node.first_result] || readers_[n].empty()) return false;
    // Elements moved: by each reader the operands, instead of one result and once the operands and the result stored.
    const size_t readers = readers_[n].size(), operands = operands_[n];
    if (operands * readers > operands + 1 + readers) return false;
    return read_elsewhere_[n] && (once_a_row_[n] || MathFunctions(graph_, node).empty());
  }

  // read_elsewhere_: nodes that a kernel reads at another position than that of its own element, itself or through
  // nodes that are read so. once_a_row_: one element of theirs serves all along a reader's contiguous dim, so that it
  // is computed outside of that loop.
  void FindReadElsewhere() {
    read_elsewhere_.assign(kinds_.size(), false);
    once_a_row_.assign(kinds_.size(), true);
    for (auto n = static_cast<NodeId>(kinds_.size()); n-- > 0;) {
      if (kinds_[n] != NodeKind::kPointwise && kinds_[n] != NodeKind::kReduction) continue;
      const bool pointwise = kinds_[n] == NodeKind::kPointwise, elsewhere = pointwise && read_elsewhere_[n];
      const bool once = elsewhere && once_a_row_[n];
      ForEachOperand(n, [&](NodeId p, bool moved, bool in_row) {
        read_elsewhere_[p] = read_elsewhere_[p] || moved || elsewhere;
        once_a_row_[p] = once_a_row_[p] && (!in_row || once);
      });
    }
  }

  // Calls f(producer, moved, in_row) for each element of a node's result that `reader` reads for one of its own:
  // whether it stands elsewhere, and whether it changes along the reader's contiguous dim.
  template <typename F>
  void ForEachOperand(NodeId reader, F&& f) {
    SymContext& syms = graph_.syms();
    const Call call(graph_, graph_.nodes()[reader]);
    const TensorType& type = kinds_[reader] == NodeKind::kReduction ? call.type(0) : call.result();
    const Index& sizes = type.sizes;
    Index index;
    for (const Sym size : sizes) {
      index.push_back(syms.IsConst(size, 1) ? syms.Const(0) : syms.Axis(syms.NextIndex(VarKind::kAxis), size));
    }
    const Sym here = Linearize(syms, index, sizes);
    std::optional<Var> row;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (syms.IsConst(type.strides[d], 1) && !syms.IsConst(sizes[d], 1)) row = syms.AsVar(index[d]);
    }
    absl::StatusOr<std::vector<OperandAccess>> accesses = OperandAccesses(graph_, call.node(), index);
    if (!accesses.ok()) return;
    for (OperandAccess& access : *accesses) {
      const NodeId p = graph_.producer(roots_[access.value]);
      if (p == kNoNode || kinds_[p] != NodeKind::kPointwise) continue;
      const bool masked = access.masked;
      ThroughViews(graph_, roots_, access);
      const Sym read = Linearize(syms, access.index, graph_.type(access.value)->sizes);
      f(p, masked || read != here, !row || syms.Mentions(read, *row));
    }
  }

  const Graph& graph_;
  const std::span<const ValueId> roots_;
  std::vector<NodeKind>& kinds_;
  std::vector<uint32_t> cost_;                     // per node that could be inlined: nodes computed for an element
  std::vector<uint32_t> operands_;                 // of these: elements read from memory
  std::vector<std::vector<NodeId>> readers_;       // per node, in order, distinct
  std::vector<bool> read_elsewhere_, once_a_row_;  // per node
  std::vector<bool> must_store_;                   // per value: something that is not a kernel reads it
};

}  // namespace

std::vector<loop::Op> MathFunctions(const Graph& graph, const Node& node) {
  if (node.def->lower == nullptr) return {};
  loop::Kernel scratch;
  scratch.syms = graph.shared_syms();
  scratch.first_axis = graph.syms().NextIndex(VarKind::kAxis);
  scratch.first_value = graph.syms().NextIndex(VarKind::kValue);
  loop::Builder b(scratch, scratch.body);
  const Index index(Call(graph, node).result().sizes.size(), graph.syms().Const(0));
  NodeElement element(graph, node, index, loop::kNone, b, [&](ValueId value, const Index&, loop::ValueId) {
    return b.ConstBits(graph.type(value)->dtype, 0);
  });
  node.def->lower(element);
  std::set<loop::Op> functions;
  for (const loop::Stmt& stmt : scratch.body) {
    const auto* let = std::get_if<loop::Let>(&stmt.node);
    if (let != nullptr && loop::IsFunction(let->op)) functions.insert(let->op);
  }
  return {functions.begin(), functions.end()};
}

void MarkInlined(const Graph& graph, std::span<const ValueId> roots, std::vector<NodeKind>& kinds) {
  Inliner(graph, roots, kinds).Run();
}

}  // namespace kiln
