// When a kernel's result may take over the memory of something that it is the last to read.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
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
  bool DiesIn(ValueId root, size_t step) const { return last_[root] == step && !input_[root]; }
  // The same for an input's contents at the call.
  bool InputIsLastReadIn(ValueId root, size_t step) const { return last_[root] == step && input_[root]; }

 private:
  std::vector<size_t> last_;  // per root
  std::vector<bool> input_;   // per value
};

using MayReuse = std::function<bool(ValueId result, ValueId dying)>;

// For the groups of one step, with their probes: pairs that are safe by how the kernel reads and writes. The dying
// value is read by this group alone, unmasked, at the very elements that the result has at the point, and never in a
// later loop than the one that stores the result; both have the same type. `may_reuse(result, dying)` decides the rest.
// At most one pair a result, and one a dying value.
std::vector<Reuse> FindReuse(const Graph& graph, std::span<const Group> groups, std::span<const Probe> probes,
                             size_t group, const MayReuse& may_reuse);

// Where the memory of a function's roots is, as far as reuse has to know. What the host sees stands in a tensor of its
// own, what only kernels see in the workspace; a result of an external call is a tensor that may be somebody else's
// unless the operator's schema has no alias marks. An input that is updated may be written where it stands, by the
// kernel that is the last to read it, if nobody else sees the new value. Steps are asked for in order.
class HostMemory {
 public:
  // Not `recycles`: inputs that are updated are all that is written over. (A kernel on a GPU loads ahead of its stores
  // unless they go to the same memory.)
  HostMemory(const Graph& graph, const Aliases& aliases, const Fusion& fusion, bool recycles = true);
  // The host sees the root: an output, what an input is updated from, an operand of an external call.
  bool IsTensor(ValueId root) const { return tensor_[root]; }
  // FindReuse's, for this step of the fusion; good while this object lives.
  MayReuse During(size_t step) const;
  // What LowerStep has made of it.
  void Note(std::span<const Reuse> reuse);

 private:
  enum class Place : uint8_t { kForeign, kTensor, kWorkspace };

  void FindUpdates(const Graph& graph, const Aliases& aliases);

  LastUses last_uses_;
  bool recycles_;
  absl::flat_hash_map<ValueId, ValueId> updates_;  // by a new value: the input that is to have it
  std::vector<bool> tensor_;                       // per root
  std::vector<Place> places_;                      // per root
};

}  // namespace kiln
