#pragma once

#include <vector>

#include "compiler/graph/graph.h"

namespace kiln {

// Per value: whether its memory may be that of an output or an update, so that it must stay apart from any other value.
std::vector<bool> Escaping(const Graph& graph);

}  // namespace kiln
