// Names of generated functions.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace kiln::codegen {

// InvalidArgument unless `symbol` is a C identifier of at most 200 characters: it goes into linker scripts.
absl::Status CheckSymbol(std::string_view symbol);

}  // namespace kiln::codegen
