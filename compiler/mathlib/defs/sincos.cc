// sin and cos: x = (n + g) quarter turns, |g| <= 1/2, r = g pi/2; then a polynomial of r for the sine or the cosine, as
// n says.
//
// The reduction is Payne and Hanek's, in floating point: x / (2 pi) is summed from products of x with chunks of 1 / (2
// pi) that are short enough to be exact; of each the whole turns are taken off, exactly, before they are added. So it
// is right for every argument.
#include <cmath>

#include "compiler/mathlib/defs/parts.h"
#include "compiler/mathlib/defs/turns.h"
#include "compiler/mathlib/function.h"

namespace kiln::mathlib {
namespace {

// sin((n + offset) pi/2 + r) from the two functions of r; `n_shifted` holds n in its low bits.
Expr ByQuadrant(Expr n_shifted, int offset, Expr sin_r, Expr cos_r) {
  const Expr quadrant = Bitcast(DType::kUInt64, n_shifted) + offset;
  const Expr odd = (quadrant & 1) != 0.0;
  const Expr sign = (quadrant & 2) << 62;
  return Bitcast(DType::kFloat64, Bitcast(DType::kUInt64, Select(odd, cos_r, sin_r)) ^ sign);
}

// In f64: the result is rounded once.
Expr SinCosF32(Expr x, int offset) {
  const QuarterTurns turns = ReduceF32(Cast(DType::kFloat64, x));
  const Expr r = turns.g.hi * 0x1.921fb54442d18p+0, z = r * r;
  // minimax.py sin.f32, cos.f32: errors 2^-37.6, 2^-43.2
  const Expr s =
      Polynomial(z, {-0x1.5555554cb90f8p-3, 0x1.11110895ab08bp-7, -0x1.a00f9d239f3e4p-13, 0x1.6cd838cefa8cdp-19});
  const Expr c =
      Polynomial(z, {0x1.5555554f4daedp-5, -0x1.6c16b89825456p-10, 0x1.a0111fb79c473p-16, -0x1.242abe90ea50cp-22});
  const Expr y = ByQuadrant(turns.n_shifted, offset, Fma(r * z, s, r), Fma(z * z, c, Fma(z, -0.5, 1.0)));
  return Cast(DType::kFloat32, y);
}

Expr SinCosF64(Expr x, int offset) {
  const QuarterTurns turns = ReduceF64(x);
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
  const Expr sin_r = r.hi + Fma(r.hi * z, s, r.lo * w);
  const Expr cos_r = w + (((1 - w) - half) + Fma(z * z, c, -(r.hi * r.lo)));
  return ByQuadrant(turns.n_shifted, offset, sin_r, cos_r);
}

Expr SinF32(Expr x, Expr) { return Select(x == 0.0, x, SinCosF32(x, 0)); }  // keeps -0
Expr CosF32(Expr x, Expr) { return SinCosF32(x, 1); }
Expr SinF64(Expr x, Expr) { return Select(Abs(x) < 0x1p-27, x, SinCosF64(x, 0)); }  // keeps -0 and subnormals
Expr CosF64(Expr x, Expr) { return SinCosF64(x, 1); }

}  // namespace

const Function kSinFunction = {
    .op = loop::Op::kSin,
    .f32 = SinF32,
    .f64 = SinF64,
    .reference = [](double x, double) { return std::sin(x); },
    .long_reference = [](long double x, long double) { return std::sin(x); },
};

const Function kCosFunction = {
    .op = loop::Op::kCos,
    .f32 = CosF32,
    .f64 = CosF64,
    .reference = [](double x, double) { return std::cos(x); },
    .long_reference = [](long double x, long double) { return std::cos(x); },
};

}  // namespace kiln::mathlib
