// exp, exp2, expm1: x = n ln(2) + r with |r| <= ln(2)/2 (Cody and Waite's reduction), e^r by a polynomial, 2^n in two
// factors. For exp2 the reduction is exact.
#include <cmath>

#include "compiler/mathlib/defs/parts.h"
#include "compiler/mathlib/function.h"

namespace kiln::mathlib {
namespace {

Expr Exp(Expr x, Expr) {
  const bool is_f32 = IsF32(x);
  const Reduced reduced = ReduceByLn2(Max(Min(x, is_f32 ? 89 : 710), is_f32 ? -104 : -746));  // beyond: infinity, 0
  return ScaleByPowerOfTwo(ExpOfReduced(reduced.r), reduced.n.value);
}

Expr Exp2F32(Expr x, Expr) {
  const Expr clamped = Max(Min(x, 129), -151);
  const Rounded n = RoundByMagic(clamped);
  const Expr r = clamped - n.value;
  // minimax.py exp2.f32: error 2^-27
  const Expr p =
      Polynomial(r, {0x1.62e43p-1, 0x1.ebfb9ep-3, 0x1.c6b012p-5, 0x1.3b58ecp-7, 0x1.5ea8ccp-10, 0x1.2605e2p-13});
  return ScaleByPowerOfTwo(Fma(r, p, 1.0), n.value);
}

Expr Exp2F64(Expr x, Expr) {
  const Expr clamped = Max(Min(x, 1025), -1076);
  const Rounded n = RoundByMagic(clamped);
  const Expr r = clamped - n.value;
  // minimax.py exp2.pow64: error 2^-55.8
  const Expr p =
      Polynomial(r, {0x1.62e42fefa39efp-1, 0x1.ebfbdff82c548p-3, 0x1.c6b08d704a233p-5, 0x1.3b2ab6fbb43aap-7,
                     0x1.5d87fe78576bcp-10, 0x1.430912b34bd7fp-13, 0x1.ffcbfdfd5feb9p-17, 0x1.62c1328b97f16p-20,
                     0x1.b52172bfda45dp-24, 0x1.e100d5e7dce3bp-28, 0x1.ef6f3ffbab5f2p-32, 0x1.b572e2ff13318p-34});
  return ScaleByPowerOfTwo(Fma(r, p, 1.0), n.value);
}

// 2^n (e^r - 1) + (2^n - 1), in halves, so that 2^n stays finite.
Expr Expm1(Expr x, Expr) {
  const bool is_f32 = IsF32(x);
  const Expr clamped = Max(Min(x, is_f32 ? 89 : 710), is_f32 ? -18 : -40);  // beyond: infinity, -1
  const Reduced reduced = ReduceByLn2(clamped);
  const Expr p = Expm1OfReduced(reduced.r, ReductionError(clamped, reduced));
  const Expr half = PowerOfTwo(reduced.n.shifted - 1);
  const Expr result = Fma(p, half, half - 0.5) * 2;
  return Select(Abs(x) < (is_f32 ? 0x1p-26 : 0x1p-55), x, result);  // keeps -0 and subnormals
}

}  // namespace

const Function kExpFunction = {
    .op = loop::Op::kExp,
    .f32 = Exp,
    .f64 = Exp,
    .reference = [](double x, double) { return std::exp(x); },
    .long_reference = [](long double x, long double) { return std::exp(x); },
};

const Function kExp2Function = {
    .op = loop::Op::kExp2,
    .f32 = Exp2F32,
    .f64 = Exp2F64,
    .reference = [](double x, double) { return std::exp2(x); },
    .long_reference = [](long double x, long double) { return std::exp2(x); },
};

const Function kExpm1Function = {
    .op = loop::Op::kExpm1,
    .f32 = Expm1,
    .f64 = Expm1,
    .reference = [](double x, double) { return std::expm1(x); },
    .long_reference = [](long double x, long double) { return std::expm1(x); },
};

}  // namespace kiln::mathlib
