// What a backward is given of its forward.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"

namespace kiln {

struct PartitionOptions {
  // As torch's activation_memory_budget, in [0, 1]. At 1 only what fuses is computed again. At 0 everything is that may
  // be. Between, of what lies between the two in bytes, at most this share is kept, and that is spent on what costs
  // most to compute for its bytes: a greedy knapsack, so a larger budget never keeps less.
  double memory_budget = 1.0;
  // By position among the inputs, missing ones are false: parameters and buffers, which are there anyway and so cost
  // nothing.
  std::vector<bool> static_inputs;
};

// The values to save, sorted: a minimum cut, by bytes, between the forward and what the gradients need; of several the
// one after which least is computed again. Sizes that are variables count as the middle of their size class, or as a
// fixed number, so the same request gives the same cut. The old contents of an input that is written in place are never
// among them: Unimplemented if there is no other way. Errors of FindRoles. Test: choose_saved_test.cc.
absl::StatusOr<std::vector<ValueId>> ChooseSaved(const Graph& joint, const PartitionOptions& options = {});

}  // namespace kiln
