// What this build of the compiler knows: for servers and tools to show.
#pragma once

#include <string>
#include <vector>

#include "compiler/ops/info.h"

namespace kiln {

// Names that Target.name may have.
std::vector<std::string> Targets();
// Records: see ops/info.h.
std::vector<OpInfo> Operators();

}  // namespace kiln
