// A joint graph becomes a forward and a backward graph.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"

namespace kiln {

// What the forward hands to the backward. The forward graph's outputs are the joint graph's forward outputs, then
// `values`, then `syms`; the backward graph's inputs are `syms`, `values`, then the tangents. Order is the joint
// graph's.
struct Saved {
  std::vector<ValueId> values;  // of the joint graph
  std::vector<Sym> syms;        // size variables that the backward's types and arguments mention
};

struct Split {
  Saved saved;
  std::shared_ptr<const Graph> forward;
  std::shared_ptr<const Graph> backward;
};

// `values`, sorted, are saved as far as the backward reads them; whatever else it needs it computes from them. Internal
// if it can't: every primal that it comes to has to be among them. Errors of FindRoles. Test: split_test.cc.
absl::StatusOr<Split> SplitJoint(const Graph& joint, std::span<const ValueId> values);

}  // namespace kiln
