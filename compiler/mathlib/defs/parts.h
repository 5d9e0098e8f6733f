// Pieces that several definitions share.
#pragma once

#include "compiler/mathlib/expr.h"

namespace kiln::mathlib {

// What definitions need to know of f32 and f64.
struct Format {
  DType bits;    // unsigned integer of the same size
  int mantissa;  // bits stored
  int bias;      // of the exponent
  double magic;  // 1.5 * 2^mantissa: x + magic holds round(x) in its low bits, for |x| < 2^(mantissa - 1)
};
const Format& FormatOf(Expr x);
inline bool IsF32(Expr x) { return x.type() == DType::kFloat32; }

// round(x), and x + magic, whose low bits are that integer in two's complement.
struct Rounded {
  Expr value;
  Expr shifted;
};
Rounded RoundByMagic(Expr x);
Rounded RoundByMagic(Expr x, double factor);  // of x * factor

// 2^n as a float, from the low bits of `shifted`; for n in the range of normal exponents.
Expr PowerOfTwo(Expr shifted);

// p * 2^n for p near 1 and integral n within 1.1 times the format's exponents: one rounding, gradual underflow,
// overflow to infinity.
Expr ScaleByPowerOfTwo(Expr p, Expr n);

// x = m * 2^k, m in [sqrt(1/2), sqrt(2)), k an integral float; for positive finite x, subnormal ones included.
struct Split {
  Expr m;
  Expr k;
};
Split SplitExponent(Expr x);

// e^x = (1 + r + r^2 …) 2^n with r = x - n ln(2), |r| <= ln(2)/2, for |x| below 1.1 times the format's exponents.
struct Reduced {
  Rounded n;
  Expr r;
};
Reduced ReduceByLn2(Expr x);
// What reduced.r is short of.
Expr ReductionError(Expr x, const Reduced& reduced);

// e^r for |r| <= ln(2)/2.
Expr ExpOfReduced(Expr r);
// e^x for x whose exponential is a normal number.
Expr ExpWithinRange(Expr x);

// e^r - 1 for |r| <= ln(2)/2, with a small relative error, given r + r_error.
Expr Expm1OfReduced(Expr r, Expr r_error);

// A value and its rounding error, value + error being exact or nearly so.
struct Double {
  Expr hi;
  Expr lo;
};
Double TwoSum(Expr a, Expr b);      // exact
Double FastTwoSum(Expr a, Expr b);  // exact for |a| >= |b| or a = 0
Double TwoProduct(Expr a, Expr b);  // exact but for underflow
Double Times(Double a, Double b);   // nearly exact

}  // namespace kiln::mathlib
