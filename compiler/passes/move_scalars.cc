#include "compiler/passes/move_scalars.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/graph/rewriter.h"
#include "compiler/ops/handles.h"
#include "compiler/ops/registry.h"

namespace kiln {
namespace {

using Replacement = std::optional<std::vector<ValueId>>;

constexpr char kCopy[] = "aten._to_copy.default";
constexpr char kCopySchema[] =
    "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
    "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor";

bool IsHostScalar(const TensorType* type) { return type->device == DeviceType::kCpu && type->rank() == 0; }

class Mover {
 public:
  absl::StatusOr<Replacement> operator()(GraphBuilder& builder, const Node& node) {
    const Graph& graph = builder.graph();
    if (node.def == nullptr || node.def->promote == Promote::kNone || node.num_results == 0) return Replacement();
    const TensorType* result = graph.type(node.first_result);
    if (result == nullptr || result->device != graph.device()) return Replacement();
    bool reads = false;
    ForEachValue(node.args, [&](ValueId v) { reads = reads || IsHostScalar(graph.type(v)); });
    if (!reads) return Replacement();
    std::vector<Arg> args = MapValues(node.args, [&](ValueId v) {
      return IsHostScalar(builder.graph().type(v)) ? Moved(builder, v) : v;
    });
    const ValueId first = builder.AddCopy(builder.graph(), node, std::move(args));
    std::vector<ValueId> results;
    for (uint32_t r = 0; r < node.num_results; ++r) results.push_back(first + r);
    return Replacement(std::move(results));
  }

 private:
  ValueId Moved(GraphBuilder& builder, ValueId value) {
    const auto [it, fresh] = moved_.try_emplace(value, kNoValue);
    if (!fresh) return it->second;
    const DeviceType device = builder.graph().device();
    TensorType type = *builder.graph().type(value);
    type.device = device;
    const Arg none;
    return it->second = builder.AddNode({kCopy, kCopySchema}, &op::to_copy(),
                                        {Arg{ValueRef{value}}, none, none, Arg{device}, none, Arg{true}, none}, {type});
  }

  absl::flat_hash_map<ValueId, ValueId> moved_;  // by the value on the host
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Graph>> MoveScalars(std::shared_ptr<const Graph> graph) {
  if (graph->device() == DeviceType::kCpu) return graph;
  return RewriteGraph(std::move(graph), Mover());
}

}  // namespace kiln
