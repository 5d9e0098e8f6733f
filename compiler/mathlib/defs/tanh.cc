// tanh(x) = E / (E + 2) with E = e^(2|x|) - 1, which is accurate near 0 too; the sign is put back.
#include <cmath>

#include "compiler/mathlib/defs/parts.h"
#include "compiler/mathlib/function.h"

namespace kiln::mathlib {
namespace {

// From e^r - 1 and n.
Expr Finish(Expr x, const Reduced& reduced, Expr expm1_r) {
  const Expr power = PowerOfTwo(reduced.n.shifted);
  const Expr expm1 = Fma(power, expm1_r, power - 1);
  return Copysign(expm1 / (expm1 + 2), x);
}

constexpr double kNearF32 = 0.75;

Expr TanhF32(Expr x, Expr) {
  const Expr z = x * x, magnitude = Abs(x);
  // minimax.py tanh.f32.near: error 2^-29.3
  const Expr near =
      Polynomial(z, {-0x1.55554ap-2, 0x1.110de2p-3, -0x1.b98296p-5, 0x1.5f9deap-6, -0x1.f6c3dep-8, 0x1.c99208p-10});
  const Expr y = Min(magnitude, 10);  // beyond: 1
  const Reduced reduced = ReduceByLn2(y + y);
  const Expr r = reduced.r;
  // minimax.py exp.f32: error 2^-28.2
  const Expr q = Polynomial(r, {0x1p-1, 0x1.55548ap-3, 0x1.55552ap-5, 0x1.123ef8p-7, 0x1.6ced84p-10});
  const Expr power = PowerOfTwo(reduced.n.shifted);
  const Expr far = 1 - 2 / Fma(power, Fma(r * r, q, r), power + 1);
  return Select(magnitude < kNearF32, Fma(x * z, near, x), Copysign(far, x));
}

Expr TanhF64(Expr x, Expr) {
  const Expr y = Min(Abs(x), 20);
  const Reduced reduced = ReduceByLn2(y + y);
  const Expr r = reduced.r;
  // minimax.py expm1.f64: error 2^-61
  const Expr q =
      Polynomial(r, {0x1p-1, 0x1.5555555555555p-3, 0x1.5555555555556p-5, 0x1.111111111139cp-7, 0x1.6c16c16c16f71p-10,
                     0x1.a01a019eb4271p-13, 0x1.a01a019fc0fe6p-16, 0x1.71de3edd32312p-19, 0x1.27e4ef6fb91bcp-22,
                     0x1.ae597e49df681p-26, 0x1.1f4e3037555acp-29, 0x1.670d5957ff949p-33});
  return Finish(x, reduced, Fma(r * r, q, r));
}

}  // namespace

const Function kTanhFunction = {
    .op = loop::Op::kTanh,
    .f32 = TanhF32,
    .f64 = TanhF64,
    .reference = [](double x, double) { return std::tanh(x); },
    .long_reference = [](long double x, long double) { return std::tanh(x); },
};

}  // namespace kiln::mathlib
