#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "compiler/graph/graph.h"

namespace kiln {

// Internal if the reference interpreter gives the two graphs, which have the same inputs, different outputs or updates
// for one draw of inputs: bit for bit, because graph passes change no arithmetic. OK where that can't be told: more
// than `max_operations` elements in all, operators without a meaning, no sizes that fit. Test: graph_check_test.cc.
absl::Status CheckSameResults(const Graph& before, const Graph& after, int64_t max_operations = 10'000'000);

}  // namespace kiln
