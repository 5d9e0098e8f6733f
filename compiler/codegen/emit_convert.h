// kCast and kBitcast on LLVM values.
#pragma once

#include "compiler/codegen/emit_types.h"

namespace kiln::codegen {

// As loop::CastBits: to a low-precision float through f32, float to integer as x86-64 converts (what does not fit gives
// MIN), every NaN stays a NaN. nullptr: no code for this pair (float8).
// `short_nans`: an f32 that has its 16 low bits clear if it is a NaN (emit_nans.h), which bf16 needs no test for.
llvm::Value* EmitCast(const EmitContext& context, DType from, DType to, llvm::Value* value, bool short_nans = false);

// The same bits; both types have one size and neither is bool.
llvm::Value* EmitBitcast(const EmitContext& context, DType from, DType to, llvm::Value* value);

}  // namespace kiln::codegen
