#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"

namespace kiln {

// Replaces a copy that changes neither dtype nor layout by what it copies, unless the copy, or a view of it, leaves the
// graph: what a graph returns has memory of its own. Test: fold_copies_test.cc.
absl::StatusOr<std::shared_ptr<const Graph>> FoldCopies(std::shared_ptr<const Graph> graph);

}  // namespace kiln
