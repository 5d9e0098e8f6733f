// Whether a graph is well formed: our own passes are what it checks (the importer has its own checks and messages).
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "compiler/graph/graph.h"

namespace kiln {

// A further check of one node, by whoever knows op records.
using NodeCheck = std::function<absl::Status(const Graph& graph, const Node& node)>;

// Internal, naming the node or value, unless: every value is defined once and before its uses; results are numbered in
// order; types have as many strides as sizes, over declared sizes only; constants have their type's bytes; lists hold
// no lists; outputs and updates name values, and no input is updated twice; the joint counts fit. Test: verify_test.cc.
absl::Status VerifyGraph(const Graph& graph, const NodeCheck& check = nullptr);

}  // namespace kiln
