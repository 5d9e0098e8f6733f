#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"

namespace kiln {

// Drops nodes whose results nothing uses, but for random draws (they advance the generator), effects, and operators
// without a record. Test: dead_code_test.cc.
absl::StatusOr<std::shared_ptr<const Graph>> EliminateDeadCode(std::shared_ptr<const Graph> graph);

}  // namespace kiln
