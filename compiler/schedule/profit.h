// What pays: the questions that fusion asks once it knows that it may.
#pragma once

#include "compiler/graph/graph.h"
#include "compiler/schedule/space.h"

namespace kiln {

// Whether a full node with a result of `type` may wait for the space's row reductions, that is, go over each row once
// more: it must still be in cache, and there must be rows enough for the threads.
bool PaysToPassAgain(SymContext& syms, const GroupSpace& space, const TensorType& type);

// Whether a kernel over so many points would rather share a launch.
bool IsSmall(const SymContext& syms, Sym points);

}  // namespace kiln
