#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"

namespace kiln {

// Replaces a view that shows a value just as it is (an alias, a view to the same sizes, two transposes) by the value,
// unless it is an output: what a graph returns stays a tensor of its own. Test: simplify_views_test.cc.
absl::StatusOr<std::shared_ptr<const Graph>> SimplifyViews(std::shared_ptr<const Graph> graph);

}  // namespace kiln
