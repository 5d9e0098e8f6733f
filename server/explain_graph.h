// What differs of two graphs of level TORCH.
#pragma once

#include "proto/graph.pb.h"
#include "server/explain_differences.h"

namespace kiln {

// kOther at the first operation that differs; else kSameOperations, with the arguments that differ.
Comparison::Graphs DiffGraphs(const v1::Graph& before, const v1::Graph& after, Differences* out);

}  // namespace kiln
