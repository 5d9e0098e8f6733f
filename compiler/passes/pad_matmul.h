// Matrices of odd lengths in the shape that a GPU's tensor cores are fast for.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"

namespace kiln {

// cuBLAS's fast kernels for 16-bit elements want rows that begin at multiples of 16 bytes (cuBLAS documentation, "Tensor
// Core Usage"); for others the product of a hidden state and a vocabulary of 50257 words takes six times as long. In a
// GPU's graph, large products (mm, addmm) with such rows are made of operands padded with zeros, and cut to size. Sizes
// that are not known stay. Linear. Test: pad_matmul_test.cc.
absl::StatusOr<std::shared_ptr<const Graph>> PadMatmuls(std::shared_ptr<const Graph> graph);

}  // namespace kiln
