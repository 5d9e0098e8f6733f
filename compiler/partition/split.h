// A joint graph becomes a forward and a backward graph.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"

namespace kiln {

// What the forward hands to the backward. The forward graph's outputs are the joint graph's forward outputs, then `values`, then
// `syms`; the backward graph's inputs are `syms`, `values`, then the tangents. Order is the joint graph's.
struct Saved {
  std::vector<ValueId> values;  // of the joint graph
  std::vector<Sym> syms;        // size variables that the backward's types and arguments mention
};

struct Split {
  Saved saved;
  std::shared_ptr<const Graph> forward;
  std::shared_ptr<const Graph> backward;
};

// Which values to save. Here: whatever the backward reads of the forward, nothing is recomputed but views and creations, which
// cost nothing: a view is taken again from the value it looks into.
absl::StatusOr<Saved> ChooseSaved(const Graph& joint);

// Test: split_test.cc.
absl::StatusOr<Split> SplitJoint(const Graph& joint, Saved saved);

}  // namespace kiln
