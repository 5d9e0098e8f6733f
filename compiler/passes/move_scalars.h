// Puts tensors of no dims that are on the host where a GPU's kernels can read them.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"

namespace kiln {

// PyTorch's pointwise operators take a 0-dim tensor of the host beside tensors of a GPU. In a GPU's graph such an operand
// is copied there first, once for all that read it, so that the operator has all its operands on one device. The copies
// are external calls that do not wait for the GPU. Linear. Test: move_scalars_test.cc.
absl::StatusOr<std::shared_ptr<const Graph>> MoveScalars(std::shared_ptr<const Graph> graph);

}  // namespace kiln
