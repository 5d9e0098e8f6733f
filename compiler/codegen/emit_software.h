// What some targets have no instruction for, in integer arithmetic: exact, correctly rounded, and without a call that
// leaves the module. Vectors of f64 are done lane by lane in a function of the module's own.
#pragma once

#include "compiler/codegen/emit_types.h"

namespace kiln::codegen {

// std::fmod of f32 or f64.
llvm::Value* SoftwareFmod(const EmitContext& context, llvm::Value* x, llvm::Value* y);

// std::fma of f32 or f64: one rounding.
llvm::Value* SoftwareFma(const EmitContext& context, llvm::Value* x, llvm::Value* y, llvm::Value* z);

// Between f16's bits and f32; to nearest even, NaNs become quiet.
llvm::Value* SoftwareHalfToFloat(const EmitContext& context, llvm::Value* bits);
llvm::Value* SoftwareFloatToHalf(const EmitContext& context, llvm::Value* value);

}  // namespace kiln::codegen
