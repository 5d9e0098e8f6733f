// Which elements of its operands a node reads.
#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/lower/index.h"

namespace kiln {

struct OperandAccess {
  ValueId value = kNoValue;
  Index index;
  bool masked = false;
};

// Operand elements that `node` reads for the element at `index` of its result (of its operand, for a reduction), in the
// order of its record's meaning. Nothing is generated.
absl::StatusOr<std::vector<OperandAccess>> OperandAccesses(const Graph& graph, const Node& node, const Index& index);

// The same element as one of the value's root. `roots`: see Aliases.
void ThroughViews(const Graph& graph, std::span<const ValueId> roots, OperandAccess& access);

}  // namespace kiln
