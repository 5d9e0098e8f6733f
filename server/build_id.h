// The compiler build: part of every key, so that no artifact outlives the code that made it.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace kiln {

// 12 hex digits of one hash over the linker's build ids of this program (which is the worker too) and of the libLLVM
// that it has loaded, if any. Falls back to the program's bytes where it carries no build id.
absl::StatusOr<std::string> ComputeBuildId();

}  // namespace kiln
