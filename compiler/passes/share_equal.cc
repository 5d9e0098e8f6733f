#include "compiler/passes/share_equal.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/graph/builder.h"
#include "compiler/ops/registry.h"
#include "compiler/passes/escaping.h"

namespace kiln {
namespace {

// Bytes that are equal for equal nodes: operator, phase, arguments, result types.
class NodeKey {
 public:
  static std::string Of(const Graph& graph, const Node& node, std::span<const Arg> args) {
    NodeKey key;
    key.Put(node.op);
    key.Put(static_cast<int>(node.phase));
    for (const Arg& arg : args) key.PutArg(arg);
    for (uint32_t r = 0; r < node.num_results; ++r) key.Put(graph.type(node.first_result + r));  // interned
    return std::move(key.bytes_);
  }

 private:
  template <typename T>
  void Put(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void PutArg(const Arg& arg) {
    Put(arg.v.index());
    std::visit([this](const auto& v) { PutValue(v); }, arg.v);
  }
  void PutValue(std::monostate) {}
  void PutValue(const std::string& s) {
    Put(s.size());
    bytes_ += s;
  }
  void PutValue(const ArgList& list) {
    Put(list.size());
    for (const Arg& item : list) PutArg(item);
  }
  template <typename T>
  void PutValue(const T& value) {
    Put(value);
  }

  std::string bytes_;
};

bool MayBeShared(const Graph& graph, const Node& node, const std::vector<bool>& escapes) {
  if (node.def == nullptr || node.def->traits.random || node.def->traits.effect || node.recompute != 0) return false;
  for (uint32_t r = 0; r < node.num_results; ++r) {
    if (escapes[node.first_result + r]) return false;
  }
  return HasMeaning(Call(graph, node));
}

// The graph's inputs, constants and what numbers them, with the same ids.
GraphBuilder Begin(const Graph& graph) {
  GraphBuilder b = GraphBuilder::Like(graph);
  for (const GraphInput& input : graph.inputs()) {
    if (input.value == kNoValue) {
      b.AddSymInput(input.sym);
    } else {
      b.AddInput(*graph.type(input.value));
    }
  }
  for (const GraphConstant& constant : graph.constants()) b.AddConstant(*graph.type(constant.value), constant.data);
  return b;
}

void End(const Graph& graph, const std::vector<ValueId>& same_as, GraphBuilder& b) {
  for (const GraphOutput& out : graph.outputs()) {
    switch (out.kind) {
      case GraphOutput::Kind::kValue:
        b.AddOutput(same_as[out.value]);
        break;
      case GraphOutput::Kind::kSym:
        b.AddSymOutput(out.sym);
        break;
      case GraphOutput::Kind::kNone:
        b.AddNoneOutput();
        break;
    }
  }
  for (const GraphUpdate& update : graph.updates()) b.AddUpdate(update.input, same_as[update.value]);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Graph>> ShareEqualNodes(std::shared_ptr<const Graph> graph) {
  const std::vector<bool> escapes = Escaping(*graph);
  std::vector<ValueId> same_as(graph->num_values());
  for (ValueId v = 0; v < graph->num_values(); ++v) same_as[v] = v;
  absl::flat_hash_map<std::string, ValueId> first_of;
  GraphBuilder b = Begin(*graph);
  bool changed = false;
  for (const Node& node : graph->nodes()) {
    std::vector<Arg> args = MapValues(std::span<const Arg>(node.args), [&](ValueId v) { return same_as[v]; });
    // Ids of nodes that an earlier pass dropped.
    while (node.num_results > 0 && b.graph().num_values() < node.first_result) b.SkipValue();
    if (MayBeShared(*graph, node, escapes)) {
      const auto [it, first] = first_of.try_emplace(NodeKey::Of(*graph, node, args), node.first_result);
      if (!first) {
        for (uint32_t r = 0; r < node.num_results; ++r) same_as[b.SkipValue()] = it->second + r;
        changed = true;
        continue;
      }
    }
    b.SetContext(NodeContext::Of(node));
    b.AddCopy(*graph, node, std::move(args));
  }
  if (!changed) return graph;
  End(*graph, same_as, b);
  return b.Build();
}

}  // namespace kiln
