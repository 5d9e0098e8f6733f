// sinh and cosh: e^x = 2^n E gives (E -+ 2^-2n / E) 2^(n-1), E and the sum with their rounding errors; sinh near 0 is
// an odd polynomial.
#include <cmath>
#include <limits>

#include "compiler/mathlib/defs/parts.h"
#include "compiler/mathlib/function.h"

namespace kiln::mathlib {
namespace {

// (e^a - e^-a) / 2 or (e^a + e^-a) / 2 for a >= 0.
Expr HalfOfBoth(Expr a, bool minus) {
  const bool is_f32 = IsF32(a);
  const Expr clamped = Min(a, is_f32 ? 90 : 711);  // beyond: infinity
  const Reduced reduced = ReduceByLn2(clamped);
  const Expr n = reduced.n.value;
  const Double e = FastTwoSum(a.Like(1), Expm1OfReduced(reduced.r, ReductionError(clamped, reduced)));
  // Where 2^-n would not be normal, its square no longer counts.
  const Expr inverse_power = PowerOfTwo(FormatOf(a).magic - Min(n, is_f32 ? 120 : 1000));
  const Expr other = inverse_power * inverse_power / e.hi;
  const Double sum = TwoSum(e.hi, minus ? -other : other);
  return ScaleByPowerOfTwo(sum.hi + (sum.lo + e.lo), n - 1);
}

Expr Sinh(Expr x, Expr) {
  const Expr a = Abs(x), z = x * x;
  // minimax.py sinh.f32, sinh.f64: errors 2^-31, 2^-62
  const Expr q =
      IsF32(x) ? Polynomial(z, {0x1.555556p-3, 0x1.1110e2p-7, 0x1.a02156p-13, 0x1.75a6f4p-19})
               : Polynomial(z, {0x1.5555555555556p-3, 0x1.111111111102p-7, 0x1.a01a01a036c6ap-13, 0x1.71de3a3b6a42ep-19,
                                0x1.ae646f97f5e07p-26, 0x1.61171ce5d092p-33, 0x1.b5bb7956bb6b6p-41});
  const Expr near = Fma(x * z, q, x);
  return Copysign(Select(a < 1.0, near, HalfOfBoth(a, true)), x);  // of -0 too
}

Expr Cosh(Expr x, Expr) { return HalfOfBoth(Abs(x), false); }

}  // namespace

const Function kSinhFunction = {
    .op = loop::Op::kSinh,
    .f32 = Sinh,
    .f64 = Sinh,
    .reference = [](double x, double) { return std::sinh(x); },
    .long_reference = [](long double x, long double) { return std::sinh(x); },
};

const Function kCoshFunction = {
    .op = loop::Op::kCosh,
    .f32 = Cosh,
    .f64 = Cosh,
    .reference = [](double x, double) { return std::cosh(x); },
    .long_reference = [](long double x, long double) { return std::cosh(x); },
};

}  // namespace kiln::mathlib
