// LLVM's view of a CUDA target.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda/machine.h"

namespace kiln::codegen {

// A target machine for 64-bit PTX, IEEE arithmetic as written. Not thread-safe: one a compilation. InvalidArgument for
// a machine whose name LLVM does not know.
absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeTargetMachine(const CudaMachine& machine);

}  // namespace kiln::codegen
