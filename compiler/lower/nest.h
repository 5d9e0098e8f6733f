// From a group of nodes to one kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/loop/ir.h"
#include "compiler/lower/alias.h"
#include "compiler/lower/index.h"

namespace kiln {

// A node of a group. `full`: computed at every point of the space; otherwise once for each point of the dims that are not reduced.
// The loops over the reduced dims run one after the other, phase 0, 1 …: a full node can be computed in loop `phase` and later ones, a
// reduced one before loop `phase`. A reduction is folded in loop `phase` - 1.
struct GroupNode {
  NodeId node = kNoNode;
  bool full = true;
  uint32_t phase = 0;
};

struct Group {
  Index space;                // sizes
  std::vector<bool> reduced;  // one a dim; none set: pointwise
  std::vector<GroupNode> nodes;     // in graph order
  std::vector<ValueId> outputs;     // values to store, in order
  bool has_reduction() const {
    for (const bool r : reduced) {
      if (r) return true;
    }
    return false;
  }
};

// How a group's space becomes loops: printable data.
//
// The dims of the space are taken in `order` (outermost first; not reduced ones before reduced ones) and merged into the loop dims
// `merged`; the innermost loop dim is the vector axis. Without reductions: parallel over the outer dims and over blocks of `block`
// iterations of the inner one. Rows (the innermost dim is reduced): parallel over the outer dims, reductions along the vector
// axis. Columns (the reduced dims are outside the innermost): parallel over the outer dims and blocks of the inner one, serial
// reductions inside the vector axis.
struct Schedule {
  std::vector<std::vector<int>> dims;  // loop dims, outermost first: positions in the space, outermost first
  int num_outer = 0;                   // of these, the first so many are not reduced
  bool columns = false;                // the vector axis is dims[num_outer - 1]; else it is dims.back()
  uint32_t width = 1;
  uint32_t accumulators = 1;
  int64_t block = 0;  // iterations of the vector axis in one parallel step; 0: all of them
  int64_t grain_work = 32768;  // element operations a thread should get at least
  std::string ToString() const;
};

// A buffer of a lowered kernel and the graph value whose memory it is.
struct LoweredKernel {
  loop::Kernel kernel;                // in its own context, normalised
  std::vector<ValueId> buffers;       // one a global buffer: a root (Aliases::root)
  std::vector<Sym> sizes;             // one a size parameter, in the graph's context
  Sym extent;                         // of the parallel axis, in the graph's context
  Sym grain;
};

// Every access to memory that lowering the group makes, as (root, flat index over `axes`): what Choose decides by.
struct MemoryAccess {
  ValueId root = kNoValue;
  Sym index;
  bool store = false;
};
struct Probe {
  Index axes;  // one a dim of the space
  std::vector<MemoryAccess> accesses;
  uint32_t operations = 0;  // statements a point
};
absl::StatusOr<Probe> ProbeGroup(const Graph& graph, const Aliases& aliases, const Group& group);

absl::StatusOr<LoweredKernel> LowerGroup(const Graph& graph, const Aliases& aliases, const Group& group,
                                         const Schedule& schedule);

// Operand elements that `node` reads for the element at `index` of its result (of its operand, for a reduction), in the order of
// its record's meaning. Nothing is generated.
struct OperandAccess {
  ValueId value = kNoValue;
  Index index;
  bool masked = false;
};
absl::StatusOr<std::vector<OperandAccess>> OperandAccesses(const Graph& graph, const Node& node, const Index& index);

}  // namespace kiln
