// kCast and kBitcast on LLVM values.
#pragma once

#include "compiler/codegen/emit_types.h"

namespace kiln::codegen {

// As loop::CastBits: to a low-precision float through f32, float to integer as x86-64 converts (what does not fit gives
// MIN), every NaN stays a quiet NaN. nullptr: no code for this pair (float8).
llvm::Value* EmitCast(const EmitContext& context, DType from, DType to, llvm::Value* value);

// The same bits; both types have one size and neither is bool.
llvm::Value* EmitBitcast(const EmitContext& context, DType from, DType to, llvm::Value* value);

}  // namespace kiln::codegen
