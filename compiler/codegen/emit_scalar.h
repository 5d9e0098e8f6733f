// The arithmetic of nodes.def on LLVM values: scalars, or vectors of equal lane counts.
#pragma once

#include <span>

#include "compiler/codegen/emit_types.h"
#include "compiler/loop/ir.h"

namespace kiln::codegen {

// Any operation but kConst, kIndex, kLoad, kCheckIndex, kCast and kBitcast; mathlib's functions only where the target
// has symbols for them. `type` is that of the operands (of args[1] for kSelect). Never traps, whatever the operands.
// nullptr: not defined on `type`.
llvm::Value* EmitOp(const EmitContext& context, loop::Op op, DType type, std::span<llvm::Value* const> args);

}  // namespace kiln::codegen
