// What one kernel (or a kernel and the one that finishes it) computes.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/lower/index.h"

namespace kiln {

// Where in a group's space a node's results stand: at every point; once for each point of the dims that are not
// `reduced`; once for each point of the dims that are not `sunk`.
enum class Place : uint8_t { kFull, kOuter, kKept };

// A group's loops over the reduced dims run one after the other, phase 0, 1 …: a full node can be computed in loop
// `phase` and later ones, an outer one before loop `phase`. A row reduction (an outer node) is folded in loop `phase` -
// 1, a sink (a kept one) in loop `phase`.
struct GroupNode {
  NodeId node = kNoNode;
  Place place = Place::kFull;
  uint32_t phase = 0;
};

// Two kinds of reductions over one space. Row reductions fold the `reduced` dims while one point of the others is
// worked on, and what follows can read the results. Sinks fold the `sunk` dims while the kernel goes along them, into
// one accumulator for each point of the others; nothing in the group but kept nodes can read the results, which are
// there only at the end. Where both kinds are there, sinks fold either full values, and `sunk` is all the dims that are
// not reduced and not 1, or outer values (the sum of the rows' losses), and `sunk` is all dims.
struct Group {
  Index space = {};                   // sizes
  std::vector<bool> reduced = {};     // one a dim
  std::vector<bool> sunk = {};        // one a dim
  bool sinks_outer = false;           // both kinds are there, and sinks fold outer values
  bool ordered = false;               // its one node is, along the `reduced` dims of its space of updates
  std::vector<GroupNode> nodes = {};  // in graph order
  std::vector<ValueId> outputs = {};  // values to store, in order
};

}  // namespace kiln
