// Which of a joint graph's nodes have to run where, whatever is saved.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"

namespace kiln {

// Per node. A node that has neither role (what only a gradient needs, made from primals alone) may run on either side.
struct Roles {
  std::vector<bool> forward;   // the forward's outputs and updates need it, or it draws or has an effect there
  std::vector<bool> backward;  // depends on a tangent, or draws or has an effect there
  std::vector<bool> bound;     // draws or has an effect: runs where its phase says, even if nothing needs its results
};

// InvalidArgument if an output of the forward depends on a tangent; Unimplemented if an update does. Test:
// roles_test.cc.
absl::StatusOr<Roles> FindRoles(const Graph& joint);

// Per value: whether it is a tensor among the primals.
std::vector<bool> Primals(const Graph& joint);

}  // namespace kiln
