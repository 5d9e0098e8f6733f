// A node as an external call of a plan.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "compiler/graph/graph.h"
#include "proto/artifact.pb.h"

namespace kiln {

// Fills everything of `call` but its results. The operator is named as torch knows it; a node that the compiler made
// from a record takes the record's first torch overload, with that overload's argument kinds.
absl::Status DescribeCall(const Graph& graph, const Node& node, const std::function<uint32_t(ValueId)>& tensor,
                          const std::function<uint32_t(Sym)>& sym, v1::External& call);

}  // namespace kiln
