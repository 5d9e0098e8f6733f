// Several kernels as one.
#pragma once

#include <vector>

#include "compiler/lower/nest.h"

namespace kiln {

// Whether the parts' scratch fits beside each other.
bool CanBundle(const std::vector<LoweredKernel>& parts);

// One kernel of several that don't read each other: its parallel iterations are the first part's, then the second's ….
// A root's memory is one buffer, and so is that of the partial results of one number. One part is given back as it is.
// Test: bundle_test.cc.
LoweredKernel Bundle(SymContext& graph_syms, std::vector<LoweredKernel> parts);

}  // namespace kiln
