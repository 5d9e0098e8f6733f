// The passes over a whole graph, between import (or partition) and fusion.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/pipeline/pass.h"

namespace kiln {

// The lists, in order: graph_passes.cc is the one to read first. Request passes run before the partition and keep the
// request's value ids; graph passes run on each function by itself.
std::span<const Pass<std::shared_ptr<const Graph>>> RequestPasses();
std::span<const Pass<std::shared_ptr<const Graph>>> GraphPasses();

// Run them. Errors name the pass. Test: graph_passes_test.cc.
absl::StatusOr<std::shared_ptr<const Graph>> RunRequestPasses(std::shared_ptr<const Graph> graph,
                                                              const PassContext& context);
absl::StatusOr<std::shared_ptr<const Graph>> RunGraphPasses(std::shared_ptr<const Graph> graph,
                                                            const PassContext& context);

// Checks of graphs for the pass runner: records' shape rules, text, and, for graphs of few scalar operations, the
// interpreter.
const Ir<std::shared_ptr<const Graph>>& GraphIr();

}  // namespace kiln
