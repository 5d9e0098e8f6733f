// Graphs as text, run through fusion and the loop interpreter.
#pragma once

#include <string>

#include "compiler/schedule/run_graph.h"

namespace kiln {

// `text` is what follows "graph inference\n". Floats are drawn from [-2, 2), integers from [0, 5). A failure of the
// current test unless all outputs have the bits that the records' reference meanings give, node by node.
GraphRun CheckRun(const std::string& text);

}  // namespace kiln
