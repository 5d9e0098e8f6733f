// asin, acos, atan, atan2. atan takes the argument to |q| <= tan(pi/8) by q = (x - 1) / (x + 1), q = -1 / x; asin takes
// it to 1/2 by asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)) (W. J. Cody and W. Waite, Software Manual for the Elementary
// Functions). Multiples of pi/4 are added in two parts.
#include <cmath>
#include <limits>

#include "compiler/mathlib/defs/parts.h"
#include "compiler/mathlib/function.h"

namespace kiln::mathlib {
namespace {

constexpr double kTanPi8 = 0x1.a8279ap-2;  // about tan(pi/8)

// count pi/4 for a small integer.
Double QuarterPi(Expr count) {
  const bool is_f32 = IsF32(count);
  const double hi = is_f32 ? 0x1.921fb6p-1 : 0x1.921fb54442d18p-1,
               lo = is_f32 ? -0x1.777a5cp-26 : 0x1.1a62633145c07p-55;
  const Expr product = count * hi;
  return {product, Fma(count, lo, Fma(count, hi, -product))};
}

// (atan(q) - q) / q^3 for z = q^2
Expr AtanRest(Expr z) {
  // minimax.py atan.f32, atan.f64: errors 2^-30, 2^-59
  return IsF32(z)
             ? Polynomial(z, {-0x1.55554ap-2, 0x1.9991e8p-3, -0x1.23ba44p-3, 0x1.b22f08p-4, -0x1.f31f26p-5})
             : Polynomial(z, {-0x1.555555555553dp-2, 0x1.999999999589bp-3, -0x1.24924922af0cfp-3, 0x1.c71c70e6c96efp-4,
                              -0x1.745cf8f1d1885p-4, 0x1.3b111a93bf9adp-4, -0x1.10ebc85e30016p-4, 0x1.df1029fa8e642p-5,
                              -0x1.9cd66d66851c1p-5, 0x1.37de6207985ebp-5, -0x1.257c0d6d39defp-6});
}

// count pi/4 + sign atan(a / b) for |a / b| up to tan(pi/8); count is 0 or exceeds the arctangent.
Expr SumOfAngles(Expr count, Expr a, Expr b, Expr sign) {
  const Expr quotient = a / b, q = quotient * sign, z = q * q;
  // The quotient's own error counts where it is added to something.
  const Expr error = Fma(-quotient, b, a) / b * sign;
  const Double base = QuarterPi(count), sum = FastTwoSum(base.hi, q);
  const Expr small = Fma(q * z, AtanRest(z), Select(count == 0.0, 0, error + base.lo));
  return sum.hi + (sum.lo + small);
}

Expr Atan(Expr x, Expr) {
  const Expr magnitude = Abs(x);
  const Expr middle = kTanPi8 < magnitude, far = 2.4142137 < magnitude;
  const Expr one = x.Like(1);
  const Expr a = Select(far, -one, Select(middle, magnitude - 1, magnitude));
  const Expr b = Select(far, Min(magnitude, 0x1p100), Select(middle, magnitude + 1, one));
  const Expr count = Select(far, one + one, Select(middle, one, 0));
  return Copysign(SumOfAngles(count, a, b, one), x);  // of -0 too
}

// The angle of the point (x, y).
Expr Atan2(Expr y, Expr x) {
  const bool is_f32 = IsF32(x);
  const double infinity = std::numeric_limits<double>::infinity();
  const Expr ay = Abs(y), ax = Abs(x), swapped = ax < ay;
  const Expr one = x.Like(1);
  // Both infinite: as if both were 1. Both zero: as if x were 1.
  const Expr larger = Select(swapped, ay, ax), smaller = Select(swapped, ax, ay);
  const Expr limit = Select(larger == infinity, Select(smaller == infinity, one, 0), smaller);
  // Scaled so that sums are finite and what cancels is no subnormal number.
  const Expr scale = Select(larger < (is_f32 ? 0x1p-60 : 0x1p-900), one.Like(is_f32 ? 0x1p60 : 0x1p100),
                            Select((is_f32 ? 0x1p100 : 0x1p1000) < larger, one.Like(0.25), one));
  const Expr bounded = Select((larger == infinity) | (larger == 0.0), one, larger) * scale;
  const Expr least = limit * scale;
  const Expr middle = bounded * kTanPi8 < least;
  const Expr a = Select(middle, least - bounded, least), b = Select(middle, least + bounded, bounded);
  // The octant: count pi/4 + sign atan(a / b).
  const Expr negative = Bitcast(is_f32 ? DType::kInt32 : DType::kInt64, x) < 0.0;
  Expr count = Select(middle, one, 0), sign = one;
  count = Select(swapped, 2 - count, count);
  sign = Select(swapped, -sign, sign);
  count = Select(negative, 4 - count, count);
  sign = Select(negative, -sign, sign);
  const Expr angle = Copysign(SumOfAngles(count, a, b, sign), y);
  return Select((x == x) & (y == y), angle, x + y);
}

// (asin(s) - s) / s^3 for z = s^2
Expr AsinRest(Expr z) {
  // minimax.py asin.f32, asin.f64: errors 2^-31, 2^-56
  return IsF32(z)
             ? Polynomial(z, {0x1.55554cp-3, 0x1.3338aap-4, 0x1.6ca7dcp-5, 0x1.04cd0cp-5, 0x1.d589eap-7, 0x1.349e5p-5})
             : Polynomial(z, {0x1.5555555555387p-3, 0x1.333333336f882p-4, 0x1.6db6db41d406dp-5, 0x1.f1c72c6d427a7p-6,
                              0x1.6e89ef7b03e48p-6, 0x1.1c6c27ab8a2b1p-6, 0x1.c6f87f510b955p-7, 0x1.8ee49b602069bp-7,
                              0x1.aab412ba8407bp-8, 0x1.40b1982de978fp-6, -0x1.0af45ed2e6ab4p-6, 0x1.05ce309a0592fp-5});
}

struct HalfAngle {
  Expr near;  // |x| <= 1/2
  Expr s;     // |x| or sqrt((1 - |x|) / 2)
  Expr rest;  // asin(s) = s + rest, with the error of the square root
};
HalfAngle HalfAngleOf(Expr x) {
  const Expr a = Abs(x), near = a <= 0.5;
  const Expr half = (1 - a) * 0.5, root = Sqrt(half);
  const Expr error = Select(half == 0.0, 0, Fma(-root, root, half) / (root * 2));
  const Expr z = Select(near, a * a, half), s = Select(near, a, root);
  return {near, s, Fma(s * z, AsinRest(z), Select(near, 0, error))};
}

Expr Asin(Expr x, Expr) {
  const HalfAngle h = HalfAngleOf(x);
  const Double quarter = QuarterPi(x.Like(2));
  const Double sum = FastTwoSum(quarter.hi, h.s * -2);
  const Expr far = sum.hi + (sum.lo + Fma(h.rest, -2, quarter.lo));
  return Copysign(Select(h.near, h.s + h.rest, far), x);  // of -0 too
}

Expr Acos(Expr x, Expr) {
  const HalfAngle h = HalfAngleOf(x);
  const Expr negative = x < 0.0;
  // Near 0 pi/2 - asin(x), else 2 asin(s), or pi - 2 asin(s) for negative x.
  const Double base = QuarterPi(Select(h.near, x.Like(2), Select(negative, x.Like(4), 0)));
  const Expr one = x.Like(1);
  const Expr factor = Select(h.near, Select(negative, one, -one), Select(negative, one.Like(-2), 2));
  const Double sum = FastTwoSum(base.hi, h.s * factor);
  return sum.hi + (sum.lo + Fma(h.rest, factor, base.lo));
}

}  // namespace

const Function kAtanFunction = {
    .op = loop::Op::kAtan,
    .f32 = Atan,
    .f64 = Atan,
    .reference = [](double x, double) { return std::atan(x); },
    .long_reference = [](long double x, long double) { return std::atan(x); },
};

const Function kAtan2Function = {
    .op = loop::Op::kAtan2,
    .f32 = Atan2,
    .f64 = Atan2,
    .reference = [](double y, double x) { return std::atan2(y, x); },
    .long_reference = [](long double y, long double x) { return std::atan2(y, x); },
};

const Function kAsinFunction = {
    .op = loop::Op::kAsin,
    .f32 = Asin,
    .f64 = Asin,
    .reference = [](double x, double) { return std::asin(x); },
    .long_reference = [](long double x, long double) { return std::asin(x); },
};

const Function kAcosFunction = {
    .op = loop::Op::kAcos,
    .f32 = Acos,
    .f64 = Acos,
    .reference = [](double x, double) { return std::acos(x); },
    .long_reference = [](long double x, long double) { return std::acos(x); },
};

}  // namespace kiln::mathlib
