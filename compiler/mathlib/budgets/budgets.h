// How far mathlib may be from the truth, as data. Tests measure against it; a change that needs a larger number needs a
// reason.
#pragma once

#include "compiler/loop/ir.h"

namespace kiln::mathlib {

// The largest error in units of the last place (evaluate.h), for every input: subnormal results and arguments of any
// size included. Near its zeros a function with a floor is held to that many units of the floor: `f32_floor`,
// `f64_floor`. ulp_test holds samples to it, codegen/cpu:mathlib_exhaustive_test all 2^32 inputs of f32.
struct Budget {
  loop::Op op;
  double f32;
  double f64;
  double f32_floor = 0;
  double f64_floor = 0;
};

inline constexpr Budget kBudgets[] = {
    {loop::Op::kExp, 1.05, 1.05},
    {loop::Op::kLog, 0.95, 0.85},
    {loop::Op::kSin, 0.51, 0.85},
    {loop::Op::kCos, 0.51, 0.85},
    {loop::Op::kTanh, 1.15, 1.1},
    {loop::Op::kErf, 1.4, 1.1},
    {loop::Op::kRsqrt, 1.5, 1.5},  // two correctly rounded operations: bit-equal to eager, which matters more
    {loop::Op::kPow, 0.51, 1.1},
    {loop::Op::kExp2, 1.05, 0.9},
    {loop::Op::kExpm1, 1.45, 1.4},
    {loop::Op::kLog2, 1.0, 0.85},
    {loop::Op::kLog10, 0.9, 0.75},
    {loop::Op::kLog1p, 1.65, 1.25},
    {loop::Op::kTan, 0.51, 1},
    {loop::Op::kAsin, 0.7, 0.75},
    {loop::Op::kAcos, 0.7, 0.75},
    {loop::Op::kAtan, 1.55, 1.4},
    {loop::Op::kSinh, 1.05, 1},
    {loop::Op::kCosh, 1.05, 0.95},
    {loop::Op::kAsinh, 1.9, 1.5},
    {loop::Op::kAcosh, 1.6, 1.4},
    {loop::Op::kAtanh, 1.7, 1.4},
    {loop::Op::kErfc, 0.52, 2.75},
    {loop::Op::kErfinv, 0.52, 2.5},
    {loop::Op::kAtan2, 1.75, 1.5},
    {loop::Op::kHypot, 0.51, 0.8},
    // Where reflection or recurrence cancels: units of the parts' size.
    {loop::Op::kLgamma, 1, 2.5, 0x1p-16, 4},
    {loop::Op::kDigamma, 1, 3, 0x1p-12, 32},
};

constexpr Budget BudgetOf(loop::Op op) {
  for (const Budget& budget : kBudgets) {
    if (budget.op == op) return budget;
  }
  return {op, 0, 0};
}

}  // namespace kiln::mathlib
