#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"

namespace kiln {

// Replaces each node whose meaning is a decomposition by its parts, again and again until none is left. The parts
// inherit the node's phase, recompute tag and origin, and the last of them its strides. Test: decompose_test.cc.
absl::StatusOr<std::shared_ptr<const Graph>> Decompose(std::shared_ptr<const Graph> graph);

// Takes the backward's gradients apart that can do with narrower operands (OpDef::narrow). Nodes that stay keep their
// origin, by which the request's values are still known. Test: decompose_test.cc.
absl::StatusOr<std::shared_ptr<const Graph>> NarrowOperands(std::shared_ptr<const Graph> graph);

}  // namespace kiln
