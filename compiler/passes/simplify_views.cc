#include "compiler/passes/simplify_views.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/graph/rewriter.h"
#include "compiler/ops/registry.h"

namespace kiln {
namespace {

// Longer chains of views are left to the lowering, which composes their index maths anyway.
constexpr int kMaxChain = 8;

class Simplifier {
 public:
  explicit Simplifier(const Graph& graph) : syms_(graph.syms()), is_output_(graph.num_values()) {
    for (const GraphOutput& output : graph.outputs()) {
      if (output.kind == GraphOutput::Kind::kValue) is_output_[output.value] = true;
    }
    for (const Node& node : graph.nodes()) first_results_.push_back(node.first_result);
  }

  // To be called for every node in order.
  absl::StatusOr<std::optional<std::vector<ValueId>>> operator()(GraphBuilder& builder, const Node& node) {
    const ValueId first_result = first_results_[next_node_++];
    const Graph& graph = builder.graph();
    if (node.num_results != 1 || is_output_[first_result] || !IsView(graph, node)) return std::nullopt;
    std::optional<ValueId> same = SameAncestor(graph, node.first_result);
    if (!same) return std::nullopt;
    return std::vector<ValueId>{*same};
  }

 private:
  static bool IsView(const Graph& graph, const Node& node) {
    return node.def && node.def->view && HasMeaning(Call(graph, node));
  }

  // The furthest value up the chain of views that `value` shows unchanged.
  std::optional<ValueId> SameAncestor(const Graph& graph, ValueId value) {
    const std::vector<Sym> own = Axes(*graph.type(value));
    std::vector<Sym> index = own;
    std::optional<ValueId> same;
    ValueId at = value;
    for (int step = 0; step < kMaxChain; ++step) {
      const NodeId producer = graph.producer(at);
      if (producer == kNoNode || !IsView(graph, graph.nodes()[producer])) break;
      const Node& node = graph.nodes()[producer];
      const Call call(graph, node);
      index = node.def->view(call, at - node.first_result, index);
      at = call.value(0);
      if (index == own && *graph.type(at) == *graph.type(value)) same = at;
    }
    return same;
  }

  // An index into a value: one axis a dim, shared by all dims of that position and size; 0 where only 0 is possible.
  std::vector<Sym> Axes(const TensorType& type) {
    std::vector<Sym> axes;
    for (size_t d = 0; d < type.sizes.size(); ++d) {
      const Sym size = type.sizes[d];
      if (syms_.IsConst(size, 1)) {
        axes.push_back(Sym{});
        continue;
      }
      auto [it, fresh] = axes_.try_emplace({d, size});
      if (fresh) it->second = syms_.Axis(syms_.NextIndex(VarKind::kAxis), size);
      axes.push_back(it->second);
    }
    return axes;
  }

  SymContext& syms_;
  std::vector<bool> is_output_;  // by value of the old graph
  std::vector<ValueId> first_results_;
  size_t next_node_ = 0;
  absl::flat_hash_map<std::pair<size_t, Sym>, Sym> axes_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Graph>> SimplifyViews(std::shared_ptr<const Graph> graph) {
  Simplifier simplifier(*graph);
  return RewriteGraph(graph, [&](GraphBuilder& builder, const Node& node) { return simplifier(builder, node); });
}

}  // namespace kiln
