#include "compiler/ops/info.h"

#include <algorithm>

#include "compiler/ops/registry.h"

namespace kiln {
namespace {

bool TakesTensors(const OpDef& def) {
  return std::ranges::any_of(SchemaOf(def).args, [](const SchemaArg& arg) {
    return arg.kind == ArgKind::kTensor || arg.kind == ArgKind::kTensorOrScalar;
  });
}

std::string KindOf(const OpDef& def) {
  if (def.view != nullptr) return "view";
  if (def.reduce != nullptr) return "reduction";
  if (def.order != nullptr) return def.lower != nullptr ? "scatter" : "scan";
  if (def.decompose != nullptr) return "composite";
  if (def.lower == nullptr) return "external";
  return TakesTensors(def) ? "pointwise" : "creation";
}

std::string GradientOf(const OpDef& def) {
  if (def.vjp != nullptr) return "rule";
  if (!def.no_grad.empty()) return std::string(def.no_grad);
  return def.decompose != nullptr ? "decomposed" : "no rule yet";
}

}  // namespace

std::vector<OpInfo> ListOps() {
  std::vector<OpInfo> ops;
  for (const OpDef* def : AllOps()) {
    ops.push_back({.name = std::string(def->name()),
                   .schema = std::string(def->schema),
                   .torch = {def->torch.begin(), def->torch.end()},
                   .kind = KindOf(*def),
                   .gradient = GradientOf(*def),
                   .budget = def->ref == nullptr ? std::nullopt : std::optional(def->budget)});
  }
  return ops;
}

}  // namespace kiln
