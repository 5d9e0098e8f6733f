// Reduction of any argument of sin and cos to quarter turns.
#pragma once

#include "compiler/mathlib/defs/parts.h"

namespace kiln::mathlib {

// x = (n + g.hi + g.lo) pi/2 up to whole turns, |g| <= 1/2 or hardly more. All in f64.
struct QuarterTurns {
  Expr n_shifted;  // n, modulo 4, in the low bits (RoundByMagic)
  Double g;
};

// x: a value of f32 in f64. g.lo is 0, g.hi has a relative error of 2^-49 at most.
QuarterTurns ReduceF32(Expr x);

// x: any f64.
QuarterTurns ReduceF64(Expr x);

}  // namespace kiln::mathlib
