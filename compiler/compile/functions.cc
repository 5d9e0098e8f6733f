#include "compiler/compile/functions.h"

#include <utility>

#include "compiler/partition/choose_saved.h"
#include "compiler/pipeline/graph_passes.h"

namespace kiln {

absl::StatusOr<GraphFunctions> MakeFunctions(std::shared_ptr<const Graph> request, PassContext& context,
                                             std::vector<bool> static_inputs) {
  GraphFunctions made;
  context.subject = "request";
  absl::StatusOr<std::shared_ptr<const Graph>> graph = RunRequestPasses(std::move(request), context);
  if (!graph.ok()) return graph.status();
  made.request = *graph;
  if (made.request->level() == GraphLevel::kJoint) {
    const PartitionOptions options = {context.options.memory_budget, std::move(static_inputs)};
    absl::StatusOr<std::vector<ValueId>> saved = ChooseSaved(*made.request, options);
    if (!saved.ok()) return saved.status();
    absl::StatusOr<Split> split = SplitJoint(*made.request, *saved);
    if (!split.ok()) return split.status();
    made.saved = std::move(split->saved);
    made.functions = {{"forward", std::move(split->forward)}, {"backward", std::move(split->backward)}};
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
