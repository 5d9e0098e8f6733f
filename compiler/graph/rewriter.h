// Makes a changed copy of a graph, node by node.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/builder.h"
#include "compiler/graph/graph.h"

namespace kiln {

// Sees each node once, in order. It has just been added to `builder`, with replaced operands, so that Call(builder.graph(),
// node) works and further nodes may be built from its operands and types. Returns nothing to keep it, or one value a
// result (kNoValue for a result that is None or has no use) to drop the node and use those instead. `node` is a copy,
// good while the call lasts.
using RewriteNode =
    std::function<absl::StatusOr<std::optional<std::vector<ValueId>>>(GraphBuilder& builder, const Node& node)>;

// The same pointer if every node was kept. Inputs, constants, outputs and updates stay in number and order; values are
// numbered anew. A replacement must have the dtype, device and sizes of what it replaces (Internal otherwise), and may
// have other strides only where no output or update needs them: there the strides are a contract. Linear. Test:
// rewriter_test.cc.
absl::StatusOr<std::shared_ptr<const Graph>> RewriteGraph(std::shared_ptr<const Graph> graph,
                                                          const RewriteNode& rewrite);

// The graph without the nodes for which `keep` is false; nothing that stays may read them. The same pointer if all
// stay.
absl::StatusOr<std::shared_ptr<const Graph>> KeepNodes(std::shared_ptr<const Graph> graph,
                                                       const std::vector<bool>& keep);

}  // namespace kiln
