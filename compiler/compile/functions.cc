#include "compiler/compile/functions.h"

#include <utility>

#include "compiler/partition/choose_saved.h"
#include "compiler/pipeline/graph_passes.h"

namespace kiln {

namespace {

// The client's ids of the values of `graph`, which the request passes made of its own: kNoValue for those that it does
// not have.
std::vector<ValueId> ClientIds(const Graph& client, const Graph& graph) {
  std::vector<ValueId> ids(graph.num_values(), kNoValue);
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    if (graph.inputs()[i].value != kNoValue) ids[graph.inputs()[i].value] = client.inputs()[i].value;
  }
  for (const Node& node : graph.nodes()) {
    if (node.origin >= client.nodes().size()) continue;
    const Node& origin = client.nodes()[node.origin];
    if (client.op_name(origin) != graph.op_name(node)) continue;
    for (uint32_t r = 0; r < node.num_results; ++r) ids[node.first_result + r] = origin.first_result + r;
  }
  return ids;
}

absl::StatusOr<std::vector<ClientValue>> AsClientKnows(const Graph& client, const Graph& graph,
                                                       std::span<const ValueId> saved) {
  const std::vector<ValueId> ids = ClientIds(client, graph);
  // What the client has not got is like something that it was made from.
  std::vector<ValueId> like = ids;
  for (const Node& node : graph.nodes()) {
    for (uint32_t r = 0; r < node.num_results; ++r) {
      const ValueId v = node.first_result + r;
      const TensorType* type = graph.type(v);
      if (like[v] != kNoValue || type == nullptr) continue;
      ForEachValue(std::span<const Arg>(node.args), [&](ValueId operand) {
        const TensorType& of = *graph.type(operand);
        if (of.sizes == type->sizes) like[v] = like[operand];
      });
    }
  }
  std::vector<ClientValue> known;
  for (const ValueId v : saved) {
    if (like[v] == kNoValue) return absl::InternalError("a saved value is like none that the client knows");
    known.push_back({like[v], ids[v] == kNoValue ? std::optional(graph.type(v)->dtype) : std::nullopt});
  }
  return known;
}

}  // namespace

absl::StatusOr<GraphFunctions> MakeFunctions(std::shared_ptr<const Graph> request, PassContext& context,
                                             std::vector<bool> static_inputs) {
  GraphFunctions made;
  context.subject = "request";
  absl::StatusOr<std::shared_ptr<const Graph>> graph = RunRequestPasses(request, context);
  if (!graph.ok()) return graph.status();
  made.request = *graph;
  if (made.request->level() == GraphLevel::kJoint) {
    const PartitionOptions options = {context.options.memory_budget, std::move(static_inputs)};
    absl::StatusOr<std::vector<ValueId>> saved = ChooseSaved(*made.request, options);
    if (!saved.ok()) return saved.status();
    absl::StatusOr<Split> split = SplitJoint(*made.request, *saved);
    if (!split.ok()) return split.status();
    made.saved = std::move(split->saved);
    absl::StatusOr<std::vector<ClientValue>> known = AsClientKnows(*request, *made.request, made.saved.values);
    if (!known.ok()) return known.status();
    made.saved_as = *std::move(known);
    made.functions = {{"forward", std::move(split->forward)}, {"backward", std::move(split->backward), true}};
  } else {
    made.functions = {{"inference", made.request}};
  }
  for (NamedGraph& function : made.functions) {
    context.subject = function.name;
    graph = RunGraphPasses(std::move(function.graph), context);
    if (!graph.ok()) return graph.status();
    function.graph = *std::move(graph);
  }
  return made;
}

std::vector<bool> StaticInputs(const v1::GuardSpec& guards) {
  std::vector<bool> is_static;
  for (const v1::GuardSpec::InputGuard& input : guards.inputs()) is_static.push_back(input.is_static());
  return is_static;
}

}  // namespace kiln
