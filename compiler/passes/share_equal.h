#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"

namespace kiln {

// Computes equal nodes of one phase once. Value ids stay (those of dropped nodes name nothing), so the request's ids still hold. A
// node whose result leaves the graph stays, and so do random, effectful, unknown and checkpointed ones. Test:
// share_equal_test.cc.
absl::StatusOr<std::shared_ptr<const Graph>> ShareEqualNodes(std::shared_ptr<const Graph> graph);

}  // namespace kiln
