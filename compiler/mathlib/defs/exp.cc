// exp: x = n ln(2) + r with |r| <= ln(2)/2 (Cody and Waite's reduction), e^r by a polynomial, 2^n in two factors.
#include <cmath>

#include "compiler/mathlib/defs/parts.h"
#include "compiler/mathlib/function.h"

namespace kiln::mathlib {
namespace {

Expr ExpF32(Expr x, Expr) {
  const Reduced reduced = ReduceByLn2(Max(Min(x, 89), -104));  // beyond: infinity, 0
  const Expr r = reduced.r;
  // minimax.py exp.f32: error 2^-28.2
  const Expr q = Polynomial(r, {0x1p-1, 0x1.55548ap-3, 0x1.55552ap-5, 0x1.123ef8p-7, 0x1.6ced84p-10});
  return ScaleByPowerOfTwo(Fma(r * r, q, r) + 1, reduced.n.value);
}

Expr ExpF64(Expr x, Expr) {
  const Reduced reduced = ReduceByLn2(Max(Min(x, 710), -746));
  const Expr r = reduced.r;
  // minimax.py exp.f64: error 2^-62
  const Expr q =
      Polynomial(r, {0x1p-1, 0x1.555555555555cp-3, 0x1.5555555555556p-5, 0x1.111111110e97dp-7, 0x1.6c16c16c15f2cp-10,
                     0x1.a01a01b48ee9cp-13, 0x1.a01a01a8f770bp-16, 0x1.71dded537147ap-19, 0x1.27e4d5cdf22c2p-22,
                     0x1.af713dd269344p-26, 0x1.1f7bae9d4bedep-29});
  return ScaleByPowerOfTwo(Fma(r * r, q, r) + 1, reduced.n.value);
}

}  // namespace

const Function kExpFunction = {
    .op = loop::Op::kExp,
    .f32 = ExpF32,
    .f64 = ExpF64,
    .reference = [](double x, double) { return std::exp(x); },
    .long_reference = [](long double x, long double) { return std::exp(x); },
};

}  // namespace kiln::mathlib
