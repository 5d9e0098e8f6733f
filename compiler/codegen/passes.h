// The short pass list between emission and LLVM's back end.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

namespace kiln::codegen {

// Vectors are explicit already, so what is left is cleaning up: common subexpressions, peepholes, and moving what a
// loop does not change out of it. Nothing that calls functions or vectorises. `unroll`: short loops with constant
// bounds become straight code, whose loads are in flight together.
void RunPasses(llvm::Module& module, llvm::TargetMachine& machine, bool unroll = false);

}  // namespace kiln::codegen
