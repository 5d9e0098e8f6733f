// Graphs as text (.kir), for tests, dumps and reproducers. Print and parse are exact inverses.
//
//   graph joint primals=2 forward_outputs=1
//   size s0 [2, inf] class=5
//   op aten.relu.default "aten::relu(Tensor self) -> Tensor"
//   %0 = input f32[s0, 768]
//   input s0                                  # binds a size; takes the id %1
//   %2 = constant i64[1] 0700000000000000     # bytes
//   %3 = aten.relu.default(%0) : f32[s0, 768]{1, s0}@cuda origin=4
//   %4, %5 = split(%3, [s0*384, 5], 1.0, none, dtype:bf16) : f32[s0, 384], none phase=backward recompute=2
//   update 0 %4
//   return %3, s0*2, none
//
// Strides are left out where they are RowMajorStrides. '#' starts a comment. An `op` line gives the schema of an
// operator; without one the resolver supplies it. Of two operators with one name the second is written name$1.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"

namespace kiln {

std::string PrintGraph(const Graph& graph);
// The same, and for each line the node that it writes; kNoNode for the others.
std::string PrintGraph(const Graph& graph, std::vector<NodeId>& lines);
std::string PrintNode(const Graph& graph, const Node& node);  // one line, without the newline
std::string PrintType(SymContext& syms, const TensorType& type);

// The record of an operator, null if it has none. May fill in an empty schema.
using OpResolver = std::function<const OpDef*(OpName&)>;

// InvalidArgument "line 3, column 17: …". The graph's sizes are made in `syms`, or in a new context if it is null. The
// text is trusted as to its size (a test's or a tool's), not as to its content.
absl::StatusOr<std::shared_ptr<const Graph>> ParseGraph(std::string_view text, const OpResolver& resolve,
                                                        std::shared_ptr<SymContext> syms = nullptr);

}  // namespace kiln
