// The bytes of a graph that enter keys.
#pragma once

#include <string>

#include "proto/graph.pb.h"

namespace kiln {

// Equal for equal graphs, in any process: known fields only, in field order. Table entries keep their order, because a
// plan's signature refers to them by index; clients number symbols, expressions, types and operators by first use.
// Needs no valid graph.
std::string CanonicalBytes(const v1::Graph& graph);
std::string CanonicalBytes(const v1::GuardSpec& guards);

}  // namespace kiln
