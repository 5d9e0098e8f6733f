// NVIDIA's device functions, which eager CUDA kernels call too: results equal to eager's.
#pragma once

#include <llvm/IR/Module.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "compiler/graph/type.h"
#include "compiler/loop/ir.h"

namespace kiln::codegen {

// The symbol of a function of mathlib for f32 or f64; "" where libdevice has none.
std::string LibdeviceSymbol(loop::Op op, DType type);

// Puts what `module` calls of libdevice into it: from `bitcode`, the contents of libdevice.10.bc, with subnormals kept.
// InvalidArgument if that is not libdevice, or lacks a function.
absl::Status LinkLibdevice(std::string_view bitcode, llvm::Module& module);

}  // namespace kiln::codegen
