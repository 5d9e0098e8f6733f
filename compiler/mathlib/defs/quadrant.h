// sin and cos of reduced arguments, for sin, cos, tan and functions with a reflection formula.
#pragma once

#include "compiler/mathlib/defs/turns.h"

namespace kiln::mathlib {

// Of g quarter turns, |g| <= 1/2; each as value and correction. In f64.
struct SinCos {
  Double sin;
  Double cos;
};
// For results that are rounded to f32: without corrections (they are 0), relative errors of 2^-37.
SinCos SinCosForF32(const QuarterTurns& turns);
SinCos SinCosForF64(const QuarterTurns& turns);

// sin((n + offset + g) pi/2) from the functions of g.
Expr ByQuadrant(const QuarterTurns& turns, int offset, Expr sin_g, Expr cos_g);
// Whether n is odd, so that sin and cos change places.
Expr IsOdd(const QuarterTurns& turns);

}  // namespace kiln::mathlib
