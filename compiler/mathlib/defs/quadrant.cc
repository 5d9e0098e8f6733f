#include "compiler/mathlib/defs/quadrant.h"

namespace kiln::mathlib {

SinCos SinCosForF32(const QuarterTurns& turns) {
  const Expr r = turns.g.hi * 0x1.921fb54442d18p+0, z = r * r;
  // minimax.py sin.f32, cos.f32: errors 2^-37.6, 2^-43.2
  const Expr s =
      Polynomial(z, {-0x1.5555554cb90f8p-3, 0x1.11110895ab08bp-7, -0x1.a00f9d239f3e4p-13, 0x1.6cd838cefa8cdp-19});
  const Expr c =
      Polynomial(z, {0x1.5555554f4daedp-5, -0x1.6c16b89825456p-10, 0x1.a0111fb79c473p-16, -0x1.242abe90ea50cp-22});
  return {{Fma(r * z, s, r), r.Like(0)}, {Fma(z * z, c, Fma(z, -0.5, 1.0)), r.Like(0)}};
}

SinCos SinCosForF64(const QuarterTurns& turns) {
  // r = g pi/2, pi/2 in two parts.
  const double pi_2_hi = 0x1.921fb54442d18p+0, pi_2_lo = 0x1.1a62633145c07p-54;
  const Expr hi = turns.g.hi * pi_2_hi;
  const Expr error = Fma(turns.g.hi, pi_2_hi, -hi);
  const Double r = FastTwoSum(hi, error + Fma(turns.g.hi, pi_2_lo, turns.g.lo * pi_2_hi));
  const Expr z = r.hi * r.hi;
  // minimax.py sin.f64, cos.f64: errors 2^-58, 2^-64
  const Expr s = Polynomial(z, {-0x1.5555555555549p-3, 0x1.111111110f8a4p-7, -0x1.a01a019c15b3bp-13,
                                0x1.71de357aac371p-19, -0x1.ae5e6839a5fc0p-26, 0x1.5d9383c90087cp-33});
  const Expr c = Polynomial(z, {0x1.555555555554cp-5, -0x1.6c16c16c1521dp-10, 0x1.a01a019cbf0d5p-16,
                                -0x1.27e4f812654bfp-22, 0x1.1ee9f110a5b96p-29, -0x1.8fb10a2514153p-37});
  // sin(hi + lo) = sin(hi) + lo cos(hi), cos(hi + lo) = cos(hi) - lo sin(hi), to first order in lo.
  const Expr half = z * 0.5, w = 1 - half;
  return {{r.hi, Fma(r.hi * z, s, r.lo * w)}, {w, ((1 - w) - half) + Fma(z * z, c, -(r.hi * r.lo))}};
}

Expr ByQuadrant(const QuarterTurns& turns, int offset, Expr sin_g, Expr cos_g) {
  const Expr quadrant = Bitcast(DType::kUInt64, turns.n_shifted) + offset;
  const Expr odd = (quadrant & 1) != 0.0;
  const Expr sign = (quadrant & 2) << 62;
  return Bitcast(DType::kFloat64, Bitcast(DType::kUInt64, Select(odd, cos_g, sin_g)) ^ sign);
}

Expr IsOdd(const QuarterTurns& turns) { return (Bitcast(DType::kUInt64, turns.n_shifted) & 1) != 0.0; }

}  // namespace kiln::mathlib
