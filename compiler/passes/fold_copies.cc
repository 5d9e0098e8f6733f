#include "compiler/passes/fold_copies.h"

#include <optional>
#include <utility>
#include <vector>

#include "compiler/graph/rewriter.h"
#include "compiler/ops/handles.h"
#include "compiler/ops/registry.h"
#include "compiler/passes/escaping.h"

namespace kiln {
namespace {

// Operators whose result is operand 0, converted and laid out anew.
bool IsCopy(const Node& node) {
  return node.def == &op::clone() || node.def == &op::to_copy() || node.def == &op::convert_element_type() ||
         node.def == &op::lift_fresh_copy();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Graph>> FoldCopies(std::shared_ptr<const Graph> graph) {
  const std::vector<bool> escapes = Escaping(*graph);
  size_t next = 0;
  auto fold = [&](GraphBuilder& builder, const Node& node) -> absl::StatusOr<std::optional<std::vector<ValueId>>> {
    const Node& old = graph->nodes()[next++];
    if (!IsCopy(node) || escapes[old.first_result]) return std::nullopt;
    const Call call(builder.graph(), node);
    if (call.type(0) != call.result()) return std::nullopt;
    return std::vector<ValueId>{call.value(0)};
  };
  return RewriteGraph(graph, fold);
}

}  // namespace kiln
