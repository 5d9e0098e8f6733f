// erfc: e^(-x^2) g(x) / (1 + 2 x) for x >= 0, where g, a polynomial of (x - k) / (x + k), hardly varies (M. M. Shepherd
// and J. G. Laframboise, Chebyshev Approximation of (1 + 2x) exp(x^2) erfc x, 1981); 2 - erfc(-x) for x < 0.
#include <cmath>

#include "compiler/mathlib/defs/parts.h"
#include "compiler/mathlib/function.h"

namespace kiln::mathlib {
namespace {

// In f64: the result is rounded once.
Expr ErfcF32(Expr x32, Expr) {
  const Expr x = Cast(DType::kFloat64, x32), a = Min(Abs(x), 10.5);  // beyond: 0
  // minimax.py erfc.f32: error 2^-29
  const Expr g = Polynomial((a - 2) / (a + 2), {0x1.46e80e27652c9p+0, -0x1.7bf5ea483c46bp-4, -0x1.5407cf88ccc3ap-3,
                                                0x1.4ff9fa61578f8p-3, -0x1.bc27099453d77p-5, -0x1.0725fbe82e7a2p-7,
                                                0x1.1d62c2161bab8p-7, 0x1.48397242fc4a6p-10, -0x1.74ad85d979654p-10,
                                                -0x1.a3cc771c0cb0cp-12, 0x1.6588fe73d521bp-13, 0x1.4f04e15f06bfcp-14});
  const Expr exponent = a * a * -0x1.71547652b82fep+0;
  const Rounded n = RoundByMagic(exponent);
  const Expr r = exponent - n.value;
  // minimax.py exp2.pow32: error 2^-34.3
  const Expr p = Polynomial(r, {0x1.62e42fef7b65ap-1, 0x1.ebfbe07ab7e49p-3, 0x1.c6b08df459b98p-5, 0x1.3b29f0fe560c8p-7,
                                0x1.5d8723abde1f1p-10, 0x1.445e6a560cabbp-13, 0x1.00f1323e93ff1p-16});
  const Expr tail = Fma(r, p, 1.0) * PowerOfTwo(n.shifted) * (g / Fma(a, 2.0, 1.0));
  return Cast(DType::kFloat32, Select(x < 0.0, 2 - tail, tail));
}

Expr ErfcF64(Expr x, Expr) {
  const Expr a = Min(Abs(x), 28);  // beyond: 0
  // minimax.py erfc.f64: error 2^-56
  const Expr g =
      Polynomial((a - 4) / (a + 4),
                 {0x1.3ba5916e9fd7fp+0,   -0x1.1df1ad154a28fp-3,  0x1.f7f5df66fd7c3p-7,   0x1.16ecefcfa5419p-4,
                  -0x1.9ddb23c3e9125p-4,  0x1.7fee004e11034p-4,   -0x1.0fb06dfe48ba3p-4,  0x1.3079edf6b4b65p-5,
                  -0x1.096238852fef1p-6,  0x1.49c672758b72ap-8,   -0x1.8d4a99cc50a6dp-11, -0x1.a1df17ce39fbep-13,
                  0x1.3be03b6cc660fp-13,  -0x1.995b149580964p-16, -0x1.788466e781af3p-17, 0x1.7f3d42cd95ed3p-18,
                  0x1.398d667a19f23p-22,  -0x1.bc474ea9ec09p-21,  0x1.48ec8a3f30fccp-24,  0x1.e4cb7b69078f1p-24,
                  -0x1.43a5a91d019d6p-26, -0x1.17011fd8d6ec3p-26, 0x1.cbe960fc645d1p-30,  0x1.0e3f0123aab6p-29,
                  0x1.10f473e501a58p-32});
  const Expr quotient = g / Fma(a, 2.0, 1.0);
  const Double square = TwoProduct(a, a);
  const Expr exponent = -square.hi;
  const Reduced reduced = ReduceByLn2(exponent);
  const Expr p = Expm1OfReduced(reduced.r, ReductionError(exponent, reduced) - square.lo);
  const Expr tail = ScaleByPowerOfTwo(Fma(quotient, p, quotient), reduced.n.value);
  // 1 - erf(x) near 0, where that is more accurate. minimax.py erf.f64.near: error 2^-56
  const Expr near =
      Polynomial(x * x, {0x1.06eba8214db68p-3, -0x1.812746b03799dp-2, 0x1.ce2f21a03f8b7p-4, -0x1.b82ce311a96b8p-6,
                         0x1.565bcceed6889p-8, -0x1.c02daeb63dffap-11, 0x1.f9a2969c8b385p-14, -0x1.f4c82d3e8a7ap-17,
                         0x1.b96b42cbb641ep-20, -0x1.5b8bdafb65e28p-23, 0x1.d3d93993f1b41p-27, -0x1.a22f5b79c536ep-31});
  return Select(Abs(x) < 0.4, 1 - Fma(near, x, x), Select(x < 0.0, 2 - tail, tail));
}

}  // namespace

const Function kErfcFunction = {
    .op = loop::Op::kErfc,
    .f32 = ErfcF32,
    .f64 = ErfcF64,
    .reference = [](double x, double) { return std::erfc(x); },
    .long_reference = [](long double x, long double) { return std::erfc(x); },
};

}  // namespace kiln::mathlib
