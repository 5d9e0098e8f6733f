// The reference meaning of one node: its record's `lower`, `view` or `reduce` written as a plain nest of serial loops,
// without fusion or schedule, and run by the loop interpreter. Generated code is compared with it.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/interp.h"

namespace kiln {

// To be given to Interpret(graph, inputs, EvalNode). Unimplemented for a node without a meaning (HasMeaning), or with a
// decomposition for one; InvalidArgument where an index read from a tensor is out of range.
//
// The node is rebuilt with its sizes as numbers, in a SymContext of its own: nothing is interned in the graph's.
// Reductions fold in increasing order of the index with one accumulator. Functions of mathlib are libm's.
absl::StatusOr<std::vector<HostValue>> EvalRecord(const NodeRun& run);

}  // namespace kiln
