// sin, cos and tan: x = (n + g) quarter turns, |g| <= 1/2, r = g pi/2; then a polynomial of r for the sine or the
// cosine, as n says.
//
// The reduction is Payne and Hanek's, in floating point: x / (2 pi) is summed from products of x with chunks of 1 / (2
// pi) that are short enough to be exact; of each the whole turns are taken off, exactly, before they are added. So it
// is right for every argument.
#include <cmath>

#include "compiler/mathlib/defs/quadrant.h"
#include "compiler/mathlib/function.h"

namespace kiln::mathlib {
namespace {

Expr SinCosF32(Expr x, int offset) {
  const QuarterTurns turns = ReduceF32(Cast(DType::kFloat64, x));
  const SinCos of_g = SinCosForF32(turns);
  return Cast(DType::kFloat32, ByQuadrant(turns, offset, of_g.sin.hi, of_g.cos.hi));
}

Expr SinCosF64(Expr x, int offset) {
  const QuarterTurns turns = ReduceF64(x);
  const SinCos of_g = SinCosForF64(turns);
  return ByQuadrant(turns, offset, of_g.sin.hi + of_g.sin.lo, of_g.cos.hi + of_g.cos.lo);
}

// sin / cos, or -cos / sin in odd quadrants.
Expr TanF32(Expr x, Expr) {
  const QuarterTurns turns = ReduceF32(Cast(DType::kFloat64, x));
  const SinCos of_g = SinCosForF32(turns);
  const Expr odd = IsOdd(turns);
  const Expr tan = Select(odd, -of_g.cos.hi, of_g.sin.hi) / Select(odd, of_g.sin.hi, of_g.cos.hi);
  return Select(x == 0.0, x, Cast(DType::kFloat32, tan));  // keeps -0
}

Expr TanF64(Expr x, Expr) {
  const QuarterTurns turns = ReduceF64(x);
  const SinCos of_g = SinCosForF64(turns);
  const Expr odd = IsOdd(turns);
  const Double sin = FastTwoSum(of_g.sin.hi, of_g.sin.lo), cos = FastTwoSum(of_g.cos.hi, of_g.cos.lo);
  const Double a = {Select(odd, -cos.hi, sin.hi), Select(odd, -cos.lo, sin.lo)};
  const Double b = {Select(odd, sin.hi, cos.hi), Select(odd, sin.lo, cos.lo)};
  const Expr inverse = 1 / b.hi, quotient = a.hi * inverse;
  const Expr rest = Fma(-quotient, b.lo, Fma(-quotient, b.hi, a.hi) + a.lo);
  return Select(Abs(x) < 0x1p-27, x, Fma(rest, inverse, quotient));  // keeps -0 and subnormals
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

const Function kTanFunction = {
    .op = loop::Op::kTan,
    .f32 = TanF32,
    .f64 = TanF64,
    .reference = [](double x, double) { return std::tan(x); },
    .long_reference = [](long double x, long double) { return std::tan(x); },
};

}  // namespace kiln::mathlib
