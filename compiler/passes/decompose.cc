#include "compiler/passes/decompose.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/rewriter.h"
#include "compiler/ops/handles.h"
#include "compiler/ops/registry.h"

namespace kiln {
namespace {

using Replacement = std::optional<std::vector<ValueId>>;

// A record that decomposes into itself, however indirectly, is a bug.
constexpr int kMaxRounds = 16;

// Whether one of the parts takes a view of `value`, whose type then depends on its strides.
bool IsViewed(const Graph& graph, ValueId value, NodeId producer) {
  for (size_t i = producer + 1; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    bool reads = false;
    ForEachValue(node.args, [&](ValueId v) { reads = reads || v == value; });
    if (reads && (!node.def || node.def->view)) return true;
  }
  return false;
}

// Views further down were typed by the client for the strides of the composite's result, so its replacement gets them:
// a value that generated code writes takes any layout, others are copied.
ValueId WithStrides(GraphBuilder& builder, ValueId value, const TensorType& wanted, NodeId first_part) {
  const Graph& graph = builder.graph();
  if (graph.type(value)->strides == wanted.strides) return value;
  const NodeId producer = graph.producer(value);
  if (producer != kNoNode && producer >= first_part && !IsViewed(graph, value, producer)) {
    const Node& part = graph.nodes()[producer];
    if (HasMeaning(Call(graph, part)) && !part.def->view) {
      builder.SetStrides(value, wanted.strides);
      return value;
    }
  }
  const OpDef& clone = op::clone();
  return builder.AddNode({std::string(clone.name()), std::string(clone.schema)}, &clone, {{ValueRef{value}}, {}},
                         {wanted});
}

absl::StatusOr<Replacement> Replace(GraphBuilder& builder, const Node& node, DecomposeFn by) {
  const Call call(builder.graph(), node);
  const auto first_part = static_cast<NodeId>(builder.graph().nodes().size());
  Values parts = by(builder, call);
  if (parts.empty()) return Replacement();
  if (!builder.status().ok()) return builder.status();
  if (parts.size() != node.num_results) {
    return absl::InternalError(absl::StrCat(std::string(node.def->name()), " decomposes into ", parts.size(),
                                            " values, not ", node.num_results));
  }
  for (uint32_t i = 0; i < node.num_results; ++i) {
    const TensorType* wanted = builder.graph().type(node.first_result + i);
    if (wanted && parts[i] != kNoValue) parts[i] = WithStrides(builder, parts[i], *wanted, first_part);
  }
  return Replacement(std::move(parts));
}

absl::StatusOr<Replacement> DecomposeNode(GraphBuilder& builder, const Node& node) {
  if (!node.def || !node.def->decompose || !HasMeaning(Call(builder.graph(), node))) return Replacement();
  return Replace(builder, node, node.def->decompose);
}

absl::StatusOr<Replacement> NarrowNode(GraphBuilder& builder, const Node& node) {
  if (!node.def || !node.def->narrow || node.phase != Phase::kBackward) return Replacement();
  return Replace(builder, node, node.def->narrow);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Graph>> Decompose(std::shared_ptr<const Graph> graph) {
  for (int round = 0; round < kMaxRounds; ++round) {
    absl::StatusOr<std::shared_ptr<const Graph>> next = RewriteGraph(graph, DecomposeNode);
    if (!next.ok() || *next == graph) return next;
    graph = *std::move(next);
  }
  return absl::InternalError(absl::StrCat("decompositions nest deeper than ", kMaxRounds));
}

absl::StatusOr<std::shared_ptr<const Graph>> NarrowOperands(std::shared_ptr<const Graph> graph) {
  return RewriteGraph(std::move(graph), NarrowNode);
}

}  // namespace kiln
