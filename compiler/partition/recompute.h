// Which of the forward's nodes a backward may compute again.
#pragma once

#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/partition/roles.h"

namespace kiln {

enum class Recompute : uint8_t {
  kFree,   // costs nothing: views, and tensors made from sizes and numbers; its results are never saved
  kFuses,  // in registers, inside the kernel that reads it
  kCosts,  // time or memory traffic: only to meet a memory budget
  kAsked,  // the request says so: its results are not saved
  kNever,  // random, effectful, data-dependent, without a record; and what might not come out bit-equal: reductions,
           // whose order belongs to the kernel that they are part of. Also where the request says that the results are
           // to be saved.
};

// One a node. Nodes without the forward's role are computed once on whichever side, so only kFree and kFuses, or kAsked
// for those that have to stay in the backward. Linear in the graph's size. Test: recompute_test.cc.
std::vector<Recompute> RecomputeRules(const Graph& joint, const Roles& roles);

}  // namespace kiln
