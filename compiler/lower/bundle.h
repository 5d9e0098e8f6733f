// Kernels that don't depend on each other, in one launch.
#pragma once

#include <vector>

#include "compiler/lower/nest.h"

namespace kiln {

// Whether the parts' scratch fits beside each other.
bool CanBundle(const std::vector<LoweredKernel>& parts);

// One kernel whose parallel iterations are the first part's, then the second's …. A buffer that several parts read is
// one. The partial results of the parts must not share numbers. One part is given back as it is. Test: bundle_test.cc.
LoweredKernel Bundle(SymContext& graph_syms, std::vector<LoweredKernel> parts);

}  // namespace kiln
