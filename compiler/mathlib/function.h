// One record a function of nodes.def that mathlib defines: everything that is known of it.
//
// To add one: a line at the end of loop/nodes.def, its value in loop/scalar.cc, a file in defs/ with its record, a line
// here and in function.cc, a line in budgets/budgets.h and in budgets/measured.h, points in golden/golden.py. The tests
// cover it from then on. Coefficients come from golden/minimax.py.
#pragma once

#include <span>

#include "compiler/loop/ir.h"
#include "compiler/mathlib/expr.h"

namespace kiln::mathlib {

struct Function {
  loop::Op op;
  // The definition on f32 and on f64: straight-line, without branches, of operations that are not mathlib's own. `y` is
  // meaningful for functions of two operands only. Errors are bounded by budgets/budgets.h for every input; NaN,
  // infinities, zeros and subnormal numbers are as IEEE 754 and C's Annex F say.
  Expr (*f32)(Expr x, Expr y);
  Expr (*f64)(Expr x, Expr y);
  // The independent answer that tests compare with, from libm: for f32 in f64, for f64 in x87's 64-bit significand.
  double (*reference)(double x, double y);
  long double (*long_reference)(long double x, long double y);
};

extern const Function kExpFunction;
extern const Function kLogFunction;
extern const Function kSinFunction;
extern const Function kCosFunction;
extern const Function kTanhFunction;
extern const Function kErfFunction;
extern const Function kRsqrtFunction;
extern const Function kPowFunction;
extern const Function kExp2Function;
extern const Function kExpm1Function;
extern const Function kLog2Function;
extern const Function kLog10Function;
extern const Function kLog1pFunction;
extern const Function kTanFunction;
extern const Function kAsinFunction;
extern const Function kAcosFunction;
extern const Function kAtanFunction;
extern const Function kSinhFunction;
extern const Function kCoshFunction;
extern const Function kAsinhFunction;
extern const Function kAcoshFunction;
extern const Function kAtanhFunction;
extern const Function kErfcFunction;
extern const Function kErfinvFunction;
extern const Function kLgammaFunction;
extern const Function kDigammaFunction;
extern const Function kAtan2Function;
extern const Function kHypotFunction;

std::span<const Function* const> AllFunctions();

// Null if `op` is none of mathlib's.
const Function* FindFunction(loop::Op op);

}  // namespace kiln::mathlib
