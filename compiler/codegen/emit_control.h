// Structured control flow in the form that LLVM's loop passes want: rotated, with a preheader.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>

namespace kiln::codegen {

using Values = llvm::SmallVector<llvm::Value*, 4>;

// for (i = begin; i < end; i += step), signed. `carried` are the loop's accumulators: `body` gets those of this
// iteration and returns those of the next. Returns the last ones. A loop known to run never or once has no branches.
Values EmitLoop(llvm::IRBuilderBase& b, llvm::Value* begin, llvm::Value* end, int64_t step, Values carried,
                llvm::function_ref<Values(llvm::Value* i, Values carried)> body);

// `then()` where `condition` (i1) holds, else `otherwise`.
Values EmitIf(llvm::IRBuilderBase& b, llvm::Value* condition, const Values& otherwise,
              llvm::function_ref<Values()> then);

}  // namespace kiln::codegen
