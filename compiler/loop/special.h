// Functions that libm lacks, in x87's 64-bit significand: what the interpreter evaluates and mathlib is held against.
// Not fast.
#pragma once

namespace kiln::loop {

// NaN beyond [-1, 1], infinite at the ends.
long double ErfInv(long double x);

// The logarithmic derivative of gamma. As torch has it: -+infinity at +-0, NaN at the other poles.
long double Digamma(long double x);

}  // namespace kiln::loop
