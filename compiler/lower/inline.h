// Nodes that are computed wherever they are read, and have no kernel.
#pragma once

#include <span>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/loop/ir.h"
#include "compiler/lower/alias.h"

namespace kiln {

// Turns kinds from kPointwise to kInlined:
// - creations of creations, up to a few nodes an element;
// - what is cheap, is made of values that stand in memory anyway (inputs, constants, results of external calls), and is
// read by kernels
//   at other positions than its own (a broadcast weight that is cast, the operands of a cat, a gathered embedding):
//   reading through it moves fewer bytes than storing it.
// `roots`: see Aliases. Near-linear. Test: inline_test.cc.
void MarkInlined(const Graph& graph, std::span<const ValueId> roots, std::vector<NodeKind>& kinds);

// The functions of mathlib that computing an element of the node's results takes: sorted, distinct.
std::vector<loop::Op> MathFunctions(const Graph& graph, const Node& node);

}  // namespace kiln
