// erf: near 0 an odd polynomial, further out 1 - exp(-t (1 + q(t))), where t (1 + q(t)) = -log(erfc(t)) is smooth. The
// form is N. Juffa's (public forum posts on erff); the coefficients are our own.
#include <cmath>

#include "compiler/mathlib/defs/parts.h"
#include "compiler/mathlib/function.h"

namespace kiln::mathlib {
namespace {

constexpr double kNearF32 = 0.927734375;

Expr ErfF32(Expr x, Expr) {
  const Expr z = x * x;
  // minimax.py erf.f32.near: error 2^-29.8
  const Expr near = Polynomial(
      z, {0x1.06eba8p-3, -0x1.81274p-2, 0x1.ce2d64p-4, -0x1.b80118p-6, 0x1.5449e8p-8, -0x1.a6075cp-11, 0x1.4f5bb6p-14});
  const Expr t = Min(Abs(x), 4);  // erf(4) rounds to 1
  // minimax.py erf.f32.far: error 2^-30.4
  const Expr far = Polynomial(
      t, {0x1.077b2ep-3, 0x1.45303p-1, 0x1.b34476p-4, -0x1.85bbecp-6, 0x1.defeccp-9, -0x1.559114p-12, 0x1.82b03ep-17});
  const Expr tail = ExpWithinRange(-Fma(t, far, t));
  return Select(Abs(x) < kNearF32, Fma(near, x, x), Copysign(1 - tail, x));
}

Expr ErfF64(Expr x, Expr) {
  const Expr z = x * x;
  // minimax.py erf.f64.near: error 2^-56
  const Expr near =
      Polynomial(z, {0x1.06eba8214db68p-3, -0x1.812746b03799dp-2, 0x1.ce2f21a03f8b7p-4, -0x1.b82ce311a96b8p-6,
                     0x1.565bcceed6889p-8, -0x1.c02daeb63dffap-11, 0x1.f9a2969c8b385p-14, -0x1.f4c82d3e8a7ap-17,
                     0x1.b96b42cbb641ep-20, -0x1.5b8bdafb65e28p-23, 0x1.d3d93993f1b41p-27, -0x1.a22f5b79c536ep-31});
  const Expr t = Min(Abs(x), 6);  // erf(6) rounds to 1
  // minimax.py erf.f64.far: error 2^-58
  const Expr far =
      Polynomial(t, {0x1.06eba094fd8cep-3, 0x1.45f316fa6ebb1p-1, 0x1.a4f305d7406a6p-4, -0x1.3957eaa4e2836p-6,
                     -0x1.bcabf3472e656p-13, 0x1.bbb4f1b95a64p-10, -0x1.2d4942366b856p-11, -0x1.05ef5abd03647p-20,
                     0x1.9080b81068d11p-14, -0x1.d616dbe714562p-15, 0x1.55717508f369ep-16, -0x1.6967448e14aadp-18,
                     0x1.216a01c8f88e1p-20, -0x1.5e19c2dc35d4dp-23, 0x1.377e522e42924p-26, -0x1.8181f113f0f87p-30,
                     0x1.28a5bac86704dp-34, -0x1.ab87edb6f9fb8p-40});
  const Expr tail = ExpWithinRange(-Fma(t, far, t));
  return Select(Abs(x) < 1, Fma(near, x, x), Copysign(1 - tail, x));
}

}  // namespace

const Function kErfFunction = {
    .op = loop::Op::kErf,
    .f32 = ErfF32,
    .f64 = ErfF64,
    .reference = [](double x, double) { return std::erf(x); },
    .long_reference = [](long double x, long double) { return std::erf(x); },
};

}  // namespace kiln::mathlib
