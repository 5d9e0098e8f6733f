// The short pass list between emission and LLVM's back end.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

namespace kiln::codegen {

struct PassOptions {
  bool registers = false;     // arrays with constant indices become registers
  bool inline_calls = false;  // of functions marked so, which then go
};

// Vectors are explicit already, so what is left is cleaning up: common subexpressions, peepholes, and moving what a
// loop does not change out of it. Nothing that calls functions or vectorises.
void RunPasses(llvm::Module& module, llvm::TargetMachine& machine, const PassOptions& options = {});

}  // namespace kiln::codegen
