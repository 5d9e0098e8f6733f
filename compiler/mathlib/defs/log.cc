// log: x = m 2^k with m in [sqrt(1/2), sqrt(2)), log(x) = k ln(2) + log(m), the small terms added first.
#include <cmath>
#include <limits>

#include "compiler/mathlib/defs/parts.h"
#include "compiler/mathlib/function.h"

namespace kiln::mathlib {
namespace {

// k ln(2) + f + small, where |k ln(2)| >= |f| or k = 0; ln(2) in two parts, the product of the first with k being
// exact.
Expr AddLn2(Expr k, double ln2_hi, double ln2_lo, Expr f, Expr small) {
  const Double sum = FastTwoSum(k * ln2_hi, f);
  return sum.hi + (sum.lo + Fma(k, ln2_lo, small));
}

// `finite` is log(x) for positive finite x.
Expr WithSpecialCases(Expr x, Expr finite) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Expr positive = Select(x < infinity, finite, x);
  return Select(0.0 < x, positive, Select(x == 0.0, x.Like(-infinity), nan));
}

Expr LogF32(Expr x, Expr) {
  const Split split = SplitExponent(x);
  const Expr f = split.m - 1, f2 = f * f;
  // minimax.py log.f32: error 2^-28.6
  const Expr q = Polynomial(f, {0x1.555546p-2, -0x1.0000c8p-2, 0x1.99a6bp-3, -0x1.550a7ep-3, 0x1.22c9aep-3,
                                -0x1.03583p-3, 0x1.f7cc38p-4, -0x1.a718d8p-4, 0x1.599ff6p-5});
  const Expr small = f2 * Fma(f, q, -0.5);
  return WithSpecialCases(x, AddLn2(split.k, 0x1.62e4p-1, 0x1.7f7d1cp-20, f, small));
}

Expr LogF64(Expr x, Expr) {
  const Split split = SplitExponent(x);
  // log(1 + f) = 2 atanh(s) for s = f / (2 + f); 2 s = f - f s, so that log(1 + f) = f - (f^2/2 - s (f^2/2 + s^2 q)).
  const Expr f = split.m - 1, s = f / (f + 2), z = s * s, half = f * f * 0.5;
  // minimax.py log.f64: error 2^-65.6
  const Expr q =
      Polynomial(z, {0x1.5555555555555p-1, 0x1.9999999999d11p-2, 0x1.24924924397f8p-2, 0x1.c71c724b66eb8p-3,
                     0x1.745ce1c8ca111p-3, 0x1.3b20247f7dd5cp-3, 0x1.0f67445eb3271p-3, 0x1.0f0dd0f8ee086p-3});
  const Expr small = Fma(s, Fma(z, q, half), -half);
  return WithSpecialCases(x, AddLn2(split.k, 0x1.62e42feep-1, 0x1.a39ef35793c76p-33, f, small));
}

}  // namespace

const Function kLogFunction = {
    .op = loop::Op::kLog,
    .f32 = LogF32,
    .f64 = LogF64,
    .reference = [](double x, double) { return std::log(x); },
    .long_reference = [](long double x, long double) { return std::log(x); },
};

}  // namespace kiln::mathlib
