// tanh: near 0 an odd polynomial, further out 1 - 2 / (e^(2|x|) + 1) with the sign put back.
#include <cmath>

#include "compiler/mathlib/defs/parts.h"
#include "compiler/mathlib/function.h"

namespace kiln::mathlib {
namespace {

// near: (tanh(x) - x) / x^3, good for |x| < 3/4; e^(2|x|) = (1 + r + r^2 q) 2^n.
Expr Join(Expr x, Expr near, const Reduced& reduced, Expr q) {
  const Expr r = reduced.r, power = PowerOfTwo(reduced.n.shifted);
  const Expr far = 1 - 2 / Fma(power, Fma(r * r, q, r), power + 1);
  return Copysign(Select(Abs(x) < 0.75, Fma(x * (x * x), near, x), far), x);  // of -0 too
}

Expr TanhF32(Expr x, Expr) {
  // minimax.py tanh.f32.near: error 2^-29.3
  const Expr near =
      Polynomial(x * x, {-0x1.55554ap-2, 0x1.110de2p-3, -0x1.b98296p-5, 0x1.5f9deap-6, -0x1.f6c3dep-8, 0x1.c99208p-10});
  const Reduced reduced = ReduceByLn2(Min(Abs(x), 10) * 2);  // beyond: 1
  // minimax.py exp.f32: error 2^-28.2
  const Expr q = Polynomial(reduced.r, {0x1p-1, 0x1.55548ap-3, 0x1.55552ap-5, 0x1.123ef8p-7, 0x1.6ced84p-10});
  return Join(x, near, reduced, q);
}

Expr TanhF64(Expr x, Expr) {
  // minimax.py tanh.f64.near: error 2^-55
  const Expr near =
      Polynomial(x * x, {-0x1.555555555549dp-2, 0x1.1111111105fd7p-3, -0x1.ba1ba1b2ac249p-5, 0x1.664f4741c94d5p-6,
                         -0x1.226e1590eed37p-7, 0x1.d6cfc9795871cp-9, -0x1.7d778d817eabp-10, 0x1.340f714ad64e8p-11,
                         -0x1.e814f83e2a5b7p-13, 0x1.65e57f3476aecp-14, -0x1.a25bee59e265dp-16, 0x1.12801211e336dp-18});
  const Reduced reduced = ReduceByLn2(Min(Abs(x), 20) * 2);  // beyond: 1
  // minimax.py exp.f64: error 2^-62
  const Expr q =
      Polynomial(reduced.r, {0x1p-1, 0x1.555555555555cp-3, 0x1.5555555555556p-5, 0x1.111111110e97dp-7,
                             0x1.6c16c16c15f2cp-10, 0x1.a01a01b48ee9cp-13, 0x1.a01a01a8f770bp-16, 0x1.71dded537147ap-19,
                             0x1.27e4d5cdf22c2p-22, 0x1.af713dd269344p-26, 0x1.1f7bae9d4bedep-29});
  return Join(x, near, reduced, q);
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
