#include "compiler/lower/access.h"

#include "compiler/loop/builder.h"
#include "compiler/lower/node_element.h"
#include "compiler/ops/op_def.h"

namespace kiln {

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

void ThroughViews(const Graph& graph, std::span<const ValueId> roots, OperandAccess& access) {
  while (roots[access.value] != access.value) {
    const Node& node = graph.nodes()[graph.producer(access.value)];
    const Call call(graph, node);
    access.index = node.def->view(call, access.value - node.first_result, access.index);
    access.value = call.value(0);
  }
}

}  // namespace kiln
