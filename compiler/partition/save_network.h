// The choice of what to save, as a flow network.
#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/partition/estimate.h"
#include "compiler/partition/min_cut.h"
#include "compiler/partition/recompute.h"
#include "compiler/partition/roles.h"

namespace kiln {

// What a cut saves.
struct SavedSet {
  int64_t bytes = 0;            // as estimated; static inputs count nothing
  std::vector<ValueId> values;  // sorted
};

// Has a vertex for each node and each value that the gradients could want of the forward. The sink's side is the
// backward: a node there is computed by it, a value there is available to it. A value is saved where the edge from its
// node (the source, for an input), of as many bytes, is cut. Edges from operands to nodes, and from what gradients read
// to the sink, never are.
//
// Refers to its arguments.
class SaveNetwork {
 public:
  // `static_inputs` as in PartitionOptions.
  SaveNetwork(const Graph& joint, const Roles& roles, std::span<const Recompute> rules,
              const std::vector<bool>& static_inputs);

  // Nodes of Recompute::kCosts that matter here, in the graph's order.
  std::vector<NodeId> Costly() const;

  // The cheapest set with which none of `kept` is computed again. Unimplemented if the backward can't do without the
  // old contents of an input that is written in place.
  absl::StatusOr<SavedSet> Cut(std::span<const NodeId> kept) const;

 private:
  void AddGradients();
  void AddNode(NodeId n);
  void AddPrimals(const std::vector<bool>& static_inputs);
  void ReadInBackward(ValueId v);
  void Connect(ValueId v, uint32_t reader);
  uint32_t NodeVertex(NodeId n);
  uint32_t ValueVertex(ValueId v);
  absl::Status NoCut() const;

  const Graph& joint_;
  const Roles& roles_;
  std::span<const Recompute> rules_;
  SizeEstimate sizes_;
  FlowNetwork network_;
  std::vector<bool> primal_;           // per value
  std::vector<bool> live_;             // per node of the backward: a gradient needs it
  std::vector<uint32_t> node_vertex_;  // or kNoVertex, also below
  std::vector<uint32_t> value_vertex_;
};

}  // namespace kiln
