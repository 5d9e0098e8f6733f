#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"

namespace kiln {

// Puts the 4-D tensors between convolutions into channels-last, the layout in which the framework's kernels are
// fastest, for the whole graph at once: if there are two convolutions that gain by it (Traits::prefers_channels_last).
// What they read is converted once, and what is computed from it element by element keeps the layout. Outputs, updates,
// and what views and other external calls read keep the layout that the client says. Linear. Test:
// channels_last_test.cc.
absl::StatusOr<std::shared_ptr<const Graph>> ChooseChannelsLast(std::shared_ptr<const Graph> graph);

}  // namespace kiln
