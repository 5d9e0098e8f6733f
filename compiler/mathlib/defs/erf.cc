// erf: near 0 an odd polynomial, further out 1 - exp(-t (1 + q(t))), where t (1 + q(t)) = -log(erfc(t)) is smooth. The
// form is N. Juffa's (public forum posts on erff); the coefficients are our own.
#include <cmath>

#include "compiler/mathlib/defs/parts.h"
#include "compiler/mathlib/function.h"

namespace kiln::mathlib {
namespace {

constexpr double kNearF32 = 0.927734375;

Expr ErfF32(Expr x, Expr y) {
  const Expr z = x * x;
  // minimax.py erf.f32.near: error 2^-29.8
  const Expr near = Polynomial(
      z, {0x1.06eba8p-3, -0x1.81274p-2, 0x1.ce2d64p-4, -0x1.b80118p-6, 0x1.5449e8p-8, -0x1.a6075cp-11, 0x1.4f5bb6p-14});
  const Expr t = Min(Abs(x), 4);  // erf(4) rounds to 1
  // minimax.py erf.f32.far: error 2^-30.4
  const Expr far = Polynomial(
      t, {0x1.077b2ep-3, 0x1.45303p-1, 0x1.b34476p-4, -0x1.85bbecp-6, 0x1.defeccp-9, -0x1.559114p-12, 0x1.82b03ep-17});
  const Expr tail = kExpFunction.f32(-Fma(t, far, t), y);
  return Select(Abs(x) < kNearF32, Fma(near, x, x), Copysign(1 - tail, x));
}

Expr ErfF64(Expr x, Expr y) { return ErfF32(x, y); }

}  // namespace

const Function kErfFunction = {
    .op = loop::Op::kErf,
    .f32 = ErfF32,
    .f64 = ErfF64,
    .reference = [](double x, double) { return std::erf(x); },
    .long_reference = [](long double x, long double) { return std::erf(x); },
};

}  // namespace kiln::mathlib
