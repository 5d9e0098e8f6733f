#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"

namespace kiln {

// Replaces each node whose meaning is a decomposition by its parts, again and again until none is left. The parts
// inherit the node's phase, recompute tag and origin, and the last of them its strides. Test: decompose_test.cc.
absl::StatusOr<std::shared_ptr<const Graph>> Decompose(std::shared_ptr<const Graph> graph);

// Takes the backward's gradients apart that have a gate (OpDef::gate), where all floats that they read have the
// result's dtype, sizes and strides. Nodes that stay keep their origin, by which the request's values are still known.
// Test: decompose_test.cc.
absl::StatusOr<std::shared_ptr<const Graph>> SplitGates(std::shared_ptr<const Graph> graph);

}  // namespace kiln
