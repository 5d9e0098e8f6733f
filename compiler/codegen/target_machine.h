// LLVM's view of a target.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <memory>

#include "absl/status/statusor.h"
#include "compiler/codegen/cpu/machine.h"
#include "compiler/codegen/cuda/machine.h"

namespace kiln::codegen {

// A target machine with IEEE arithmetic as written: for the System V x86-64 ABI, position-independent, or for 64-bit
// PTX. Not thread-safe: one a compilation. InvalidArgument for a machine whose name LLVM does not know.
absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeTargetMachine(const CpuMachine& machine);
absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeTargetMachine(const CudaMachine& machine);

}  // namespace kiln::codegen
