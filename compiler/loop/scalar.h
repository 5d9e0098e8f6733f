// The scalar operations of nodes.def, evaluated on the host: what the interpreter runs and what constants fold to.
//
// A value travels as 64 bits in the form of Let::imm: signed integers sign-extended, unsigned ones and bool
// zero-extended, floats as their own bit patterns. Which NaN an operation gives is not specified anywhere in the loop
// IR; here it is what the host's gives.
#pragma once

#include <cstdint>

#include "compiler/graph/type.h"
#include "compiler/loop/ir.h"

namespace kiln::loop {

// The types that loop values may have: all but complex ones.
bool IsLoopType(DType type);

// `bits` cut to the width of `type` and extended again.
uint64_t Canonical(DType type, uint64_t bits);

// kCast, as nodes.def describes it. A cast to f16, bf16 or float8 goes through f32, as torch's does.
uint64_t CastBits(DType from, DType to, uint64_t bits);

// Any float type, exactly; and back, rounding once to nearest even (f64 to a low-precision float in one step, unlike
// CastBits).
double ToDouble(DType type, uint64_t bits);
uint64_t FromDouble(DType type, double value);

// An operation of nodes.def other than kConst, kIndex, kLoad, kCheckIndex, kCast, kBitcast. `type` is that of the
// operands (of args[1] for kSelect). Functions of mathlib are evaluated by libm in f64 and rounded: within 1 ULP, not
// bit-exact.
uint64_t EvalOp(Op op, DType type, const uint64_t args[3]);

}  // namespace kiln::loop
