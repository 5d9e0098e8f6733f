#include "compiler/mathlib/defs/logs.h"

#include <limits>

namespace kiln::mathlib {
namespace {

// ln(2) in two parts; the product of the first with an exponent is exact.
struct Ln2 {
  double hi, lo;
};
constexpr Ln2 kF32 = {0x1.62e4p-1, 0x1.7f7d1cp-20}, kF64 = {0x1.62e42feep-1, 0x1.a39ef35793c76p-33};

// log(1 + f) - f
Expr LogTail(Expr f) {
  if (IsF32(f)) {
    const Expr f2 = f * f;
    // minimax.py log.f32: error 2^-28.6
    const Expr q = Polynomial(f, {0x1.555546p-2, -0x1.0000c8p-2, 0x1.99a6bp-3, -0x1.550a7ep-3, 0x1.22c9aep-3,
                                  -0x1.03583p-3, 0x1.f7cc38p-4, -0x1.a718d8p-4, 0x1.599ff6p-5});
    return f2 * Fma(f, q, -0.5);
  }
  // log(1 + f) = 2 atanh(s) for s = f / (2 + f); 2 s = f - f s, so that log(1 + f) = f - (f^2/2 - s (f^2/2 + s^2 q)).
  const Expr s = f / (f + 2), z = s * s, half = f * f * 0.5;
  // minimax.py log.f64: error 2^-65.6
  const Expr q =
      Polynomial(z, {0x1.5555555555555p-1, 0x1.9999999999d11p-2, 0x1.24924924397f8p-2, 0x1.c71c724b66eb8p-3,
                     0x1.745ce1c8ca111p-3, 0x1.3b20247f7dd5cp-3, 0x1.0f67445eb3271p-3, 0x1.0f0dd0f8ee086p-3});
  return Fma(s, Fma(z, q, half), -half);
}

// 1 + hi = 2^k (1 + f); scale = 2^-k.
struct Scaled {
  Expr k, f, scale;
};
Scaled Scale1p(Expr hi) {
  const Expr k = SplitExponent(hi + 1).k;
  // By way of 2^(2-k), which is a normal number for every k.
  const Expr scale4 = PowerOfTwo((2 - k) + FormatOf(hi).magic), scale = scale4 * 0.25;
  // With k = 0 nothing is to be scaled, and hi may be subnormal.
  return {k, Select(k == 0.0, hi, Fma(hi * 0.25, scale4, scale - 1)), scale};
}

}  // namespace

LogParts SplitLog(Expr x) {
  const Split split = SplitExponent(x);
  const Expr f = split.m - 1;
  return {split.k, f, LogTail(f)};
}

LogParts SplitLog1p(Expr hi) {
  const Scaled scaled = Scale1p(hi);
  return {scaled.k, scaled.f, LogTail(scaled.f)};
}

LogParts SplitLog1p(Expr hi, Expr lo) {
  const Scaled scaled = Scale1p(hi);
  // The derivative 1 / (1 + f) to three terms: enough for a correction.
  const Expr slope = Fma(scaled.f, scaled.f - 1, 1);
  return {scaled.k, scaled.f, Fma(lo * scaled.scale, slope, LogTail(scaled.f))};
}

Double SumLog(const LogParts& parts) {
  const Ln2& ln2 = IsF32(parts.k) ? kF32 : kF64;
  const Double sum = FastTwoSum(parts.k * ln2.hi, parts.f);  // the first is the larger one, or zero
  return {sum.hi, sum.lo + Fma(parts.k, ln2.lo, parts.small)};
}

Expr WithLogCases(Expr x, Expr finite) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Expr positive = Select(x < infinity, finite, x);
  return Select(0.0 < x, positive, Select(x == 0.0, x.Like(-infinity), nan));
}

}  // namespace kiln::mathlib
