// When a kernel's result may take over the memory of something that it is the last to read.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/lower/alias.h"
#include "compiler/lower/group.h"
#include "compiler/lower/nest.h"
#include "compiler/schedule/fuse.h"

namespace kiln {

// Which step of a fused graph is the last to touch each root.
class LastUses {
 public:
  LastUses(const Graph& graph, const Aliases& aliases, const Fusion& fusion);
  // Never true of inputs, constants, outputs, and of what inputs are updated from.
  bool DiesIn(ValueId root, size_t step) const { return last_[root] == step; }

 private:
  std::vector<size_t> last_;  // per root
};

// Whether the results of an external call are memory of their own: its schema has no alias marks.
bool ReturnsFresh(const Graph& graph, const Node& node);

using MayReuse = std::function<bool(ValueId result, ValueId dying)>;

// For the groups of one step, with their probes: pairs that are safe by how the kernel reads and writes. The dying
// value is read by this group alone, unmasked, at the very elements that the result has at the point, and never in a
// later loop than the one that stores the result; both have the same type. `may_reuse(result, dying)` decides the rest.
// At most one pair a result, and one a dying value.
std::vector<Reuse> FindReuse(const Graph& graph, std::span<const Group> groups, std::span<const Probe> probes,
                             size_t group, const MayReuse& may_reuse);

}  // namespace kiln
