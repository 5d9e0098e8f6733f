#include "compiler/passes/escaping.h"

#include "compiler/ops/op_def.h"

namespace kiln {
namespace {

// Whether a result may be a view of an operand.
bool MayAlias(const Graph& graph, const Node& node) {
  if (node.def) return node.def->view != nullptr;
  return graph.op_name(node).schema.find("(a") != std::string::npos;
}

}  // namespace

std::vector<bool> Escaping(const Graph& graph) {
  std::vector<bool> escapes(graph.num_values());
  for (const GraphOutput& output : graph.outputs()) {
    if (output.kind == GraphOutput::Kind::kValue) escapes[output.value] = true;
  }
  for (const GraphUpdate& update : graph.updates()) escapes[update.value] = true;
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    if (!MayAlias(graph, node)) continue;
    bool any = false;
    for (uint32_t r = 0; r < node.num_results; ++r) any = any || escapes[node.first_result + r];
    if (any) ForEachValue(node.args, [&](ValueId v) { escapes[v] = true; });
  }
  return escapes;
}

}  // namespace kiln
