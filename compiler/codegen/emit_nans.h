// Which NaNs a value may be.
#pragma once

#include <vector>

#include "compiler/codegen/emit.h"
#include "compiler/loop/ir.h"

namespace kiln::codegen {

// By value id, less first_value: an f32 that has its 16 low bits clear if it is a NaN, so that rounding it to bf16 by
// adding to its bits cannot carry out of the NaN. True of what comes from bf16 and numbers only: an instruction's NaN
// is the default one, or an operand's (LLVM's language reference, "Floating-Point Semantics"). For i32: its 16 low bits
// are clear.
std::vector<bool> FindShortNans(const loop::Kernel& kernel, const EmitTarget& target);

}  // namespace kiln::codegen
