#include "compiler/lower/alias.h"

#include <algorithm>

#include "compiler/lower/index.h"
#include "compiler/lower/inline.h"
#include "compiler/ops/registry.h"

namespace kiln {
namespace {

// Complex and float8 arithmetic is left to the host.
bool Computable(const TensorType* type) {
  return type != nullptr && !IsComplex(type->dtype) && ByteSize(type->dtype) <= 8 &&
         !(IsFloat(type->dtype) && ByteSize(type->dtype) == 1);
}

bool AllComputable(const Graph& graph, const Node& node) {
  for (uint32_t r = 0; r < node.num_results; ++r) {
    if (!Computable(graph.type(node.first_result + r))) return false;
  }
  bool ok = true;
  ForEachValue(std::span<const Arg>(node.args), [&](ValueId v) { ok &= Computable(graph.type(v)); });
  return ok;
}

}  // namespace

NodeKind Classify(const Graph& graph, const Node& node) {
  if (node.def == nullptr || !HasMeaning(Call(graph, node))) return NodeKind::kExternal;
  if (node.def->view) return NodeKind::kView;
  if (!AllComputable(graph, node)) return NodeKind::kExternal;
  if (node.def->reduce) return NodeKind::kReduction;
  if (node.def->order) return NodeKind::kOrdered;
  if (!node.def->lower) return NodeKind::kExternal;
  bool has_tensor = false;
  ForEachValue(std::span<const Arg>(node.args), [&](ValueId) { has_tensor = true; });
  return has_tensor ? NodeKind::kPointwise : NodeKind::kInlined;
}

Aliases::Aliases(const Graph& graph) : roots_(graph.num_values()), offsets_(graph.num_values()) {
  SymContext& syms = graph.syms();
  for (ValueId v = 0; v < graph.num_values(); ++v) roots_[v] = v;
  kinds_.reserve(graph.nodes().size());
  for (const Node& node : graph.nodes()) {
    kinds_.push_back(Classify(graph, node));
    if (kinds_.back() != NodeKind::kView) continue;
    const Call call(graph, node);
    const ValueId base = call.value(0);
    for (uint32_t r = 0; r < node.num_results; ++r) {
      const ValueId v = node.first_result + r;
      const Index zero(graph.type(v)->sizes.size(), syms.Const(0));
      const Index at = node.def->view(call, r, zero);
      roots_[v] = roots_[base];
      offsets_[v] = syms.Add(offsets_[base], Dot(syms, at, call.type(0).strides));
    }
  }
  MarkInlined(graph, roots_, kinds_);
}

}  // namespace kiln
