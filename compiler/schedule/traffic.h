// How much memory a fused graph's kernels move: what fusion is for.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/lower/alias.h"
#include "compiler/schedule/fuse.h"

namespace kiln {

struct Traffic {
  int64_t nodes = 0;      // in kernels
  int64_t steps = 0;      // of groups: kernels that only fold partial results are not counted
  int64_t externals = 0;  // external calls
  int64_t bytes = 0;      // read and written by kernels: of each value once a group the elements that it touches
};

// Unimplemented if a size is a variable.
absl::StatusOr<Traffic> KernelTraffic(const Graph& graph, const Aliases& aliases, const Fusion& fusion);

}  // namespace kiln
