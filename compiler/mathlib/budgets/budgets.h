// How far mathlib may be from the truth, as data. Tests measure against it; a change that needs a larger number needs a
// reason.
#pragma once

#include "compiler/loop/ir.h"

namespace kiln::mathlib {

// The largest error in units of the last place (evaluate.h), for every input: subnormal results and arguments of any
// size included. ulp_test holds samples to it, exhaustive_test all 2^32 inputs of f32.
struct Budget {
  loop::Op op;
  double f32;
  double f64;
};

inline constexpr Budget kBudgets[] = {
    {loop::Op::kExp, 1.05, 1.05}, {loop::Op::kLog, 0.95, 0.85}, {loop::Op::kSin, 0.51, 0.85},
    {loop::Op::kCos, 0.51, 0.85}, {loop::Op::kTanh, 1.15, 1.1}, {loop::Op::kErf, 1.4, 1.1},
    {loop::Op::kRsqrt, 1.5, 1.5},  // two correctly rounded operations: bit-equal to eager, which matters more
    {loop::Op::kPow, 0.51, 1.1},
};

constexpr Budget BudgetOf(loop::Op op) {
  for (const Budget& budget : kBudgets) {
    if (budget.op == op) return budget;
  }
  return {op, 0, 0};
}

}  // namespace kiln::mathlib
