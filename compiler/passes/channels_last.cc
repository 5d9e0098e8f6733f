#include "compiler/passes/channels_last.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/graph/rewriter.h"
#include "compiler/ops/handles.h"
#include "compiler/ops/registry.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/passes/escaping.h"

namespace kiln {
namespace {

using Replacement = std::optional<std::vector<ValueId>>;

bool IsImage(const TensorType* type) { return type != nullptr && type->rank() == 4; }

// On the CPU torch converts f64 back by itself (ATen/native/ConvUtils.h, thnn_conv_use_channels_last); on a GPU it is
// the tensor cores that want it, which 16-bit elements go through.
bool IsFasterChannelsLast(const TensorType& type) {
  return IsLowPrecisionFloat(type.dtype) || (type.dtype == DType::kFloat32 && type.device == DeviceType::kCpu);
}

bool Gains(const Call& call, const Traits& traits) {
  if (!traits.prefers_channels_last) return false;
  for (size_t i = 0; i < traits.follows_layout; ++i) {
    const TensorType* type = call.is_tensor(i) ? call.graph().type(call.value(i)) : nullptr;
    if (!IsImage(type) || !IsFasterChannelsLast(*type)) return false;
  }
  return true;
}

class Chooser {
 public:
  explicit Chooser(const Graph& graph) : graph_(graph), escapes_(Escaping(graph)) {}

  // To be called for every node in order.
  absl::StatusOr<Replacement> operator()(GraphBuilder& builder, const Node& node) {
    const Node& old = graph_.nodes()[next_++];
    const Call call(builder.graph(), node);
    const Traits traits = TraitsOf(call);
    const size_t follows = traits.follows_layout;
    bool relaid = Gains(call, traits);
    for (size_t i = 0; i < follows; ++i) relaid = relaid || (call.is_tensor(i) && IsRelaid(call.value(i)));
    if (follows > 0 && relaid) return Follow(builder, node, old, follows);
    if (IsComputed(call) && !traits.random) {
      Keep(builder, node, old);
      return Replacement();
    }
    std::vector<Arg> args = MapValues(node.args, [&](ValueId v) { return AsClientSays(builder, v); });
    if (args == node.args) return Replacement();
    return Replacement(Again(builder, node, std::move(args)));
  }

 private:
  // Generated code reads operands of any layout. (A composite that draws random numbers does so in the order of
  // memory.)
  static bool IsComputed(const Call& call) {
    const OpDef* def = call.node().def;
    return def != nullptr && def->view == nullptr && HasMeaning(call);
  }

  // An external call that works in its operands' layout.
  Replacement Follow(GraphBuilder& builder, const Node& node, const Node& old, size_t follows) {
    std::vector<Arg> args = node.args;
    for (size_t i = 0; i < args.size(); ++i) {
      const auto operand = [&](ValueId v) { return i < follows ? ChannelsLast(builder, v) : AsClientSays(builder, v); };
      args[i] = MapValues(std::span(&args[i], 1), operand)[0];
    }
    std::vector<ValueId> results = Again(builder, node, std::move(args));
    for (uint32_t r = 0; r < node.num_results; ++r) {
      if (results[r] == kNoValue || !IsImage(builder.graph().type(results[r]))) continue;
      if (!Relay(builder, results[r]) || !escapes_[old.first_result + r]) continue;
      const ValueId relaid = results[r];
      results[r] = AsClientSays(builder, relaid);
      relaid_as_[results[r]] = {relaid, node.phase};
    }
    return results;
  }

  // Results of the sizes of an operand that is channels-last are so too.
  void Keep(GraphBuilder& builder, const Node& node, const Node& old) {
    const bool by_elements = node.def->lower != nullptr && node.def->order == nullptr;
    if (!by_elements && node.def->decompose == nullptr) return;
    for (uint32_t r = 0; r < node.num_results; ++r) {
      const ValueId result = node.first_result + r;
      const TensorType* type = builder.graph().type(result);
      if (!IsImage(type) || escapes_[old.first_result + r]) continue;
      bool like = false;
      ForEachValue(node.args,
                   [&](ValueId v) { like = like || (IsRelaid(v) && builder.graph().type(v)->sizes == type->sizes); });
      if (like) Relay(builder, result);
    }
  }

  // The same call with other operands.
  static std::vector<ValueId> Again(GraphBuilder& builder, const Node& node, std::vector<Arg> args) {
    const ValueId first = builder.AddCopy(builder.graph(), node, std::move(args));
    std::vector<ValueId> results;
    for (uint32_t r = 0; r < node.num_results; ++r) {
      results.push_back(builder.graph().type(first + r) == nullptr ? kNoValue : first + r);
    }
    return results;
  }

  bool IsRelaid(ValueId v) const { return as_client_says_.contains(v); }

  // Gives a result of a node the layout; false if it is the client's already.
  bool Relay(GraphBuilder& builder, ValueId v) {
    const TensorType type = *builder.graph().type(v);
    if (IsChannelsLast(builder.syms(), type)) return false;
    builder.SetStrides(v, ChannelsLastStrides(builder.syms(), type.sizes));
    as_client_says_[v] = {type.strides};
    return true;
  }

  ValueId ChannelsLast(GraphBuilder& builder, ValueId v) {
    const TensorType type = *builder.graph().type(v);
    if (IsRelaid(v) || !IsImage(&type)) return v;
    std::vector<Sym> strides = ChannelsLastStrides(builder.syms(), type.sizes);
    // By the strides of one channel the framework tells the layouts apart, though they say nothing.
    const bool one = builder.syms().IsConst(type.sizes[1], 1);
    if (one ? type.strides == strides : IsChannelsLast(builder.syms(), type)) return v;
    if (const std::optional<ValueId> known = Known(relaid_as_, v, builder)) return *known;
    const ValueId copy = Copy(builder, v, std::move(strides));
    as_client_says_[copy] = {type.strides, {v}};
    relaid_as_[v] = {copy, builder.context().phase};
    return copy;
  }

  ValueId AsClientSays(GraphBuilder& builder, ValueId v) {
    const auto it = as_client_says_.find(v);
    if (it == as_client_says_.end()) return v;
    Made& made = it->second.made;
    if (made.value == kNoValue || !MayRead(builder, made)) {
      made = {Copy(builder, v, it->second.strides), builder.context().phase};
    }
    return made.value;
  }

  struct Made {
    ValueId value = kNoValue;
    Phase phase = Phase::kForward;
  };
  struct Original {
    std::vector<Sym> strides;
    Made made = {};  // a copy that has them, or what was copied
  };

  // The forward reads nothing that the backward made.
  static bool MayRead(const GraphBuilder& builder, const Made& made) {
    return made.phase == Phase::kForward || builder.context().phase == Phase::kBackward;
  }

  static std::optional<ValueId> Known(const absl::flat_hash_map<ValueId, Made>& map, ValueId v,
                                      const GraphBuilder& builder) {
    const auto it = map.find(v);
    return it != map.end() && MayRead(builder, it->second) ? std::optional(it->second.value) : std::nullopt;
  }

  static ValueId Copy(GraphBuilder& builder, ValueId v, std::vector<Sym> strides) {
    const OpDef& clone = op::clone();
    TensorType type = *builder.graph().type(v);
    type.strides = std::move(strides);
    return builder.AddNode({std::string(clone.name()), std::string(clone.schema)}, &clone, {{ValueRef{v}}, {}},
                           {std::move(type)});
  }

  const Graph& graph_;
  const std::vector<bool> escapes_;
  size_t next_ = 0;
  absl::flat_hash_map<ValueId, Original> as_client_says_;  // of values that are channels-last and were not
  absl::flat_hash_map<ValueId, Made> relaid_as_;           // of values that are not, their copies that are
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Graph>> ChooseChannelsLast(std::shared_ptr<const Graph> graph) {
  const auto gains = [&](const Node& node) {
    return node.def != nullptr && node.phase == Phase::kForward && Gains(Call(*graph, node), node.def->traits);
  };
  if (std::count_if(graph->nodes().begin(), graph->nodes().end(), gains) < 2) return graph;
  Chooser chooser(*graph);
  return RewriteGraph(graph, [&](GraphBuilder& builder, const Node& node) { return chooser(builder, node); });
}

}  // namespace kiln
