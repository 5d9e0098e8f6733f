#include "compiler/graph/rewriter.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

using ValueMap = std::vector<ValueId>;

ValueId Mapped(const ValueMap& map, ValueId v) { return v < map.size() ? map[v] : kNoValue; }

// Inputs and constants of `from`, in order. `map` gets their new ids.
void CopyInputs(const Graph& from, GraphBuilder& to, ValueMap& map) {
  map.assign(from.num_values(), kNoValue);
  for (const GraphInput& input : from.inputs()) {
    if (input.value == kNoValue) {
      to.AddSymInput(input.sym);
    } else {
      map[input.value] = to.AddInput(*from.type(input.value));
    }
  }
  for (const GraphConstant& constant : from.constants()) {
    map[constant.value] = to.AddConstant(*from.type(constant.value), constant.data);
  }
}

void CopyOutputs(const Graph& from, GraphBuilder& to, const ValueMap& map) {
  for (const GraphUpdate& update : from.updates()) to.AddUpdate(update.input, Mapped(map, update.value));
  for (const GraphOutput& output : from.outputs()) {
    switch (output.kind) {
      case GraphOutput::Kind::kValue:
        to.AddOutput(Mapped(map, output.value));
        break;
      case GraphOutput::Kind::kSym:
        to.AddSymOutput(output.sym);
        break;
      case GraphOutput::Kind::kNone:
        to.AddNoneOutput();
    }
  }
}

// The first of the copy's results.
ValueId CopyNode(const Graph& from, const Node& node, GraphBuilder& to, ValueMap& map) {
  to.SetContext(NodeContext::Of(node));
  const ValueId first = to.AddCopy(from, node, MapValues(node.args, [&](ValueId v) { return Mapped(map, v); }));
  for (uint32_t i = 0; i < node.num_results; ++i) map[node.first_result + i] = first + i;
  return first;
}

std::vector<bool> ContractStrides(const Graph& graph) {
  std::vector<bool> contract(graph.num_values());
  for (const GraphOutput& output : graph.outputs()) {
    if (output.kind == GraphOutput::Kind::kValue) contract[output.value] = true;
  }
  for (const GraphUpdate& update : graph.updates()) contract[update.value] = true;
  return contract;
}

absl::Status CheckReplacement(const Graph& from, const Node& node, const Graph& to, uint32_t i, ValueId replacement,
                              bool strides_matter) {
  const TensorType* old = from.type(node.first_result + i);
  if (!old || replacement == kNoValue) return absl::OkStatus();
  const TensorType* now = replacement < to.num_values() ? to.type(replacement) : nullptr;
  const std::string what = absl::StrCat("rewrite of ", from.op_name(node).name, ": result ", i);
  if (!now) return absl::InternalError(what + " is not defined");
  if (now->dtype != old->dtype || now->device != old->device || now->sizes != old->sizes) {
    return absl::InternalError(what + " changes type");
  }
  if (strides_matter && now->strides != old->strides) return absl::InternalError(what + " changes an output's strides");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Graph>> RewriteGraph(std::shared_ptr<const Graph> graph,
                                                          const RewriteNode& rewrite) {
  GraphBuilder builder = GraphBuilder::Like(*graph);
  ValueMap map;
  CopyInputs(*graph, builder, map);
  const std::vector<bool> contract = ContractStrides(*graph);
  std::vector<NodeId> dropped;
  for (const Node& node : graph->nodes()) {
    const auto id = static_cast<NodeId>(builder.graph().nodes().size());
    CopyNode(*graph, node, builder, map);
    if (!builder.status().ok()) return builder.status();
    const Node copy = builder.graph().nodes()[id];
    absl::StatusOr<std::optional<std::vector<ValueId>>> replacement = rewrite(builder, copy);
    if (!replacement.ok()) return replacement.status();
    if (!*replacement) continue;
    if ((*replacement)->size() != node.num_results) {
      return absl::InternalError(absl::StrCat("rewrite of ", graph->op_name(node).name, ": ", (*replacement)->size(),
                                              " values for ", node.num_results, " results"));
    }
    dropped.push_back(id);
    for (uint32_t i = 0; i < node.num_results; ++i) {
      const ValueId v = (**replacement)[i];
      absl::Status status = CheckReplacement(*graph, node, builder.graph(), i, v, contract[node.first_result + i]);
      if (!status.ok()) return status;
      map[node.first_result + i] = v;
    }
  }
  if (dropped.empty()) return graph;
  CopyOutputs(*graph, builder, map);
  absl::StatusOr<std::shared_ptr<const Graph>> rewritten = builder.Build();
  if (!rewritten.ok()) return rewritten;
  std::vector<bool> keep((*rewritten)->nodes().size(), true);
  for (NodeId id : dropped) keep[id] = false;
  return KeepNodes(*std::move(rewritten), keep);
}

absl::StatusOr<std::shared_ptr<const Graph>> KeepNodes(std::shared_ptr<const Graph> graph,
                                                       const std::vector<bool>& keep) {
  if (std::find(keep.begin(), keep.end(), false) == keep.end()) return graph;
  GraphBuilder builder = GraphBuilder::Like(*graph);
  ValueMap map;
  CopyInputs(*graph, builder, map);
  for (NodeId i = 0; i < graph->nodes().size(); ++i) {
    if (keep[i]) CopyNode(*graph, graph->nodes()[i], builder, map);
  }
  CopyOutputs(*graph, builder, map);
  return builder.Build();
}

}  // namespace kiln
