// How far mathlib was found to be from the truth, as data beside the budgets.
#pragma once

#include "compiler/loop/ir.h"

namespace kiln::mathlib {

// The largest error that was met, as Budget counts. f64, and f32 where it is not exhaustive, over ulp_test's samples;
// exhaustive: over all 2^32 inputs of f32 (codegen/cpu:mathlib_exhaustive_test). ulp_test refuses a row that is below
// what it meets, or above the budget.
struct Measured {
  loop::Op op;
  double f32;
  double f64;
  bool exhaustive = false;
};

inline constexpr Measured kMeasured[] = {
    {loop::Op::kExp, 1.025, 0.959, true},    {loop::Op::kLog, 0.900, 0.814, true},
    {loop::Op::kSin, 0.501, 0.761, true},    {loop::Op::kCos, 0.501, 0.760, true},
    {loop::Op::kTanh, 1.065, 1.021, true},   {loop::Op::kErf, 1.346, 1.036, true},
    {loop::Op::kRsqrt, 1.491, 1.492, true},  {loop::Op::kPow, 0.501, 1.005},
    {loop::Op::kExp2, 0.985, 0.834, true},   {loop::Op::kExpm1, 1.393, 1.300, true},
    {loop::Op::kLog2, 0.973, 0.799, true},   {loop::Op::kLog10, 0.823, 0.679, true},
    {loop::Op::kLog1p, 1.495, 1.144, true},  {loop::Op::kTan, 0.501, 0.914, true},
    {loop::Op::kAsin, 0.621, 0.698, true},   {loop::Op::kAcos, 0.597, 0.670, true},
    {loop::Op::kAtan, 1.518, 1.306, true},   {loop::Op::kSinh, 0.918, 0.865, true},
    {loop::Op::kCosh, 0.875, 0.842, true},   {loop::Op::kAsinh, 1.706, 1.444, true},
    {loop::Op::kAcosh, 1.511, 1.341, true},  {loop::Op::kAtanh, 1.532, 1.363, true},
    {loop::Op::kErfc, 0.517, 2.590, true},   {loop::Op::kErfinv, 0.512, 2.229, true},
    {loop::Op::kLgamma, 0.728, 2.375, true}, {loop::Op::kDigamma, 0.571, 2.690, true},
    {loop::Op::kAtan2, 1.591, 1.398},        {loop::Op::kHypot, 0.500, 0.715},
};

constexpr Measured MeasuredOf(loop::Op op) {
  for (const Measured& measured : kMeasured) {
    if (measured.op == op) return measured;
  }
  return {op, 0, 0};
}

}  // namespace kiln::mathlib
