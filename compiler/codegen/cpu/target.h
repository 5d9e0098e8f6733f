// LLVM's view of a CPU target.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "compiler/codegen/cpu/machine.h"

namespace kiln::codegen {

// A target machine for the System V x86-64 ABI, position-independent, IEEE arithmetic as written. Not thread-safe: one
// a compilation. InvalidArgument for a machine whose name LLVM does not know.
absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeTargetMachine(const CpuMachine& machine);

}  // namespace kiln::codegen
