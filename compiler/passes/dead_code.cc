#include "compiler/passes/dead_code.h"

#include <utility>
#include <vector>

#include "compiler/graph/rewriter.h"
#include "compiler/ops/op_def.h"

namespace kiln {
namespace {

bool MayBeDropped(const Node& node) {
  return node.def != nullptr && !node.def->traits.random && !node.def->traits.effect;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Graph>> EliminateDeadCode(std::shared_ptr<const Graph> graph) {
  std::vector<bool> used(graph->num_values());
  for (const GraphOutput& output : graph->outputs()) {
    if (output.kind == GraphOutput::Kind::kValue) used[output.value] = true;
  }
  for (const GraphUpdate& update : graph->updates()) used[update.value] = true;
  std::vector<bool> keep(graph->nodes().size());
  for (size_t i = keep.size(); i-- > 0;) {
    const Node& node = graph->nodes()[i];
    keep[i] = !MayBeDropped(node);
    for (uint32_t r = 0; r < node.num_results; ++r) keep[i] = keep[i] || used[node.first_result + r];
    if (keep[i]) ForEachValue(node.args, [&](ValueId v) { used[v] = true; });
  }
  return KeepNodes(std::move(graph), keep);
}

}  // namespace kiln
