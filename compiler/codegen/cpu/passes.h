// The short pass list between emission and LLVM's back end.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

namespace kiln::codegen {

// Vectors and unrolling are explicit already, so what is left is cleaning up: common subexpressions, peepholes, and
// moving what a loop does not change out of it. Nothing that calls functions, vectorises or unrolls.
void RunPasses(llvm::Module& module, llvm::TargetMachine& machine);

}  // namespace kiln::codegen
