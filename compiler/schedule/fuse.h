// Fusion: which nodes of a graph are computed together, in one kernel.
//
// Legality is decided here, by shapes and index maps alone: no operator's name, no cost. A group is a set of nodes over
// one iteration space in which every element that one node reads of another stands at the reader's own position
// (through any chain of views), so that it stays in a register. Reductions over the same dims of the space belong too,
// with the nodes that produce their operand, the nodes over the reduced space, and nodes over the full space that read
// the reduced results (a further phase).
//
// Acyclic by levels: each group and external call has a level, every edge goes to a strictly higher one, and a node
// joins or merges groups only where that stays true. Near-linear: a group's size is bounded, and so is each look at it.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/lower/alias.h"
#include "compiler/lower/nest.h"

namespace kiln {

struct FusionLimits {
  uint32_t group_nodes = 100;
  uint32_t phases = 4;
  uint32_t consumers_looked_at = 64;
  bool bundle = true;       // small groups become one kernel
  bool inputs_die = false;  // inputs are freed after their last use, as a backward's are
};

// One step of the fused graph, in an order that respects every dependence.
struct FusedStep {
  enum class Kind : uint8_t { kGroup, kExternal };
  Kind kind = Kind::kGroup;
  uint32_t index = 0;  // into groups, or a NodeId
  uint32_t count = 1;  // groups [index, index + count), of which none reads another, as one kernel
};

struct Fusion {
  std::vector<Group> groups;
  std::vector<FusedStep> order;
};

// Random and effectful nodes keep the graph's order, and so do all others unless another order needs less memory at its
// peak. Every group has at least one output. Test: fuse_test.cc.
absl::StatusOr<Fusion> Fuse(const Graph& graph, const Aliases& aliases, const FusionLimits& limits = {});

}  // namespace kiln
