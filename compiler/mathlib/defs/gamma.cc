// lgamma and digamma. Arguments are moved by the recurrence to where a polynomial (lgamma, [1.5, 2.5]) or Stirling's
// series with fitted coefficients holds, the factors collected in one product; negative ones are reflected (Abramowitz
// and Stegun, 6.1.15, 6.1.17, 6.1.40, 6.3.5, 6.3.7, 6.3.18).
#include <cmath>
#include <limits>

#include "compiler/loop/special.h"
#include "compiler/mathlib/defs/logs.h"
#include "compiler/mathlib/defs/quadrant.h"
#include "compiler/mathlib/function.h"

namespace kiln::mathlib {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = 0x1.921fb54442d18p+1;

// sin(pi x) and cos(pi x) up to a common sign.
struct OfPi {
  Expr sin, cos;
};
OfPi SinCosPi(Expr x) {
  const Expr fraction = x - Round(x);
  const Rounded n = RoundByMagic(fraction * 2);
  const QuarterTurns turns = {n.shifted, {Fma(fraction, 2.0, -n.value), x.Like(0)}};
  const SinCos of_g = SinCosForF64(turns);
  const Expr sin = of_g.sin.hi + of_g.sin.lo, cos = of_g.cos.hi + of_g.cos.lo, odd = IsOdd(turns);
  return {Select(odd, cos, sin), Select(odd, -sin, cos)};
}

// log(gamma(2 + u)) / u for |u| <= 1/2, and z (log(gamma(z)) - (z - 1/2) log(z) + z - log(2 pi) / 2) for w = 1 / z^2.
struct LgammaRests {
  Expr (*near)(Expr u);
  Expr (*far)(Expr w);
};

// x: in f64. With Stirling's series from 7 on.
Expr Lgamma(Expr x, const LgammaRests& rests) {
  const Expr z = Abs(x), one = z.Like(1);
  const Expr stirling = 7.0 <= z, up = z < 1.5;
  // z in [1.5, 7): gamma(z) = product gamma(t); below: gamma(z) = gamma(z + 1) / z, or of z + 2 / (z (z + 1)).
  Expr t = z, product = one;
  for (int i = 0; i < 5; ++i) {
    const Expr down = 2.5 < t;
    t = Select(down, t - 1, t);
    product = Select(down, product * t, product);
  }
  const Expr twice = z < 0.5;
  t = Select(up, z + Select(twice, one + one, one), t);
  product = Select(up, z * Select(twice, z + 1, one), product);
  const Double log = SumLog(SplitLog(Select(stirling, z, product)));
  const Expr u = t - 2, near_rest = u * rests.near(u);
  const Expr near = Select(up, near_rest - (log.hi + log.lo), near_rest + (log.hi + log.lo));
  // (z - 1/2) (log(z) - 1) - 1/2 + log(2 pi) / 2 + …
  const Expr inverse = 1 / z, half = z - 0.5;
  const Double less = TwoSum(log.hi, one.Like(-1));
  const Expr rest = Fma(inverse, rests.far(inverse * inverse), 0x1.acfe390c97d69p-2);  // log(2 pi) / 2 - 1/2
  const Expr far = Fma(half, less.hi, Fma(half, less.lo + log.lo, rest));
  const Expr positive = Select(stirling, far, near);
  // log(gamma(x)) = log(pi / (z |sin(pi z)|)) - log(gamma(z)) for negative x.
  const Double reflected = SumLog(SplitLog(Max(Abs(SinCosPi(z).sin) * z, 0x1p-1000) * (1 / kPi)));
  const Expr negative = -(reflected.hi + (reflected.lo + positive));
  const Expr tiny = z < 0x1p-60;  // -log(z)
  const Expr result = Select((x < 0.0) & !tiny, negative, positive);
  const Expr pole = (Round(z) == z) & (x <= 0.0);
  return Select(pole | (z == kInfinity), one.Like(kInfinity), result);
}

Expr LgammaF32(Expr x, Expr) {
  // minimax.py lgamma.f32, stirling.f32: errors 2^-39, 2^-36
  const LgammaRests rests = {
      .near =
          [](Expr u) {
            return Polynomial(
                u, {0x1.b0ee60720f298p-2, 0x1.4a34cc4a3f1b6p-2, -0x1.13e001bfde34ap-4, 0x1.51322b94b624ap-6,
                    -0x1.e404af4c092c6p-8, 0x1.7adcba6a19409p-9, -0x1.38c0a348dd485p-10, 0x1.0b59129ad8816p-11,
                    -0x1.cf2f37dd751f1p-13, 0x1.9abfe2fd7d50ap-14, -0x1.bae54464fdf58p-15, 0x1.a0a453c87be47p-16});
          },
      .far =
          [](Expr w) { return Polynomial(w, {0x1.5555553178998p-4, -0x1.6c0fd561c6fccp-9, 0x1.955bf51c5345fp-11}); }};
  return Cast(DType::kFloat32, Lgamma(Cast(DType::kFloat64, x), rests));
}

Expr LgammaF64(Expr x, Expr) {
  // minimax.py lgamma.f64, stirling.f64: errors 2^-57, 2^-58
  const LgammaRests rests = {
      .near =
          [](Expr u) {
            return Polynomial(
                u, {0x1.b0ee6072093cep-2, 0x1.4a34cc4a60fa7p-2, -0x1.13e001a557553p-4, 0x1.51322ac7d7c42p-6,
                    -0x1.e404fc21d9aep-8, 0x1.7add6eaebf5afp-9, -0x1.38ac5bfc8c37bp-10, 0x1.0b36af0cf0314p-11,
                    -0x1.d3fd6abbcb991p-13, 0x1.a127ed79213c6p-14, -0x1.78d8f2a21bc3ap-15, 0x1.5804e9387a7edp-16,
                    -0x1.3d4d53b83308fp-17, 0x1.2661ea6d4fa82p-18, -0x1.08f8968b0ff97p-19, 0x1.eb92c15dc6194p-21,
                    -0x1.380e73978a48cp-21, 0x1.2fc4d1db985a8p-22});
          },
      .far =
          [](Expr w) {
            return Polynomial(
                w, {0x1.5555555555554p-4, -0x1.6c16c16bfff1cp-9, 0x1.a01a00d44737ep-11, -0x1.3812bd8918912p-11,
                    0x1.b8f1dfd52d8fp-11, -0x1.e9eba169b4ec4p-10, 0x1.3157cc59662b7p-8});
          }};
  return Lgamma(x, rests);
}

// x: in f64. rest: z^2 (log(z) - 1 / (2 z) - digamma(z)) for w = 1 / z^2, z >= 8.
Expr Digamma(Expr x, Expr (*rest)(Expr w)) {
  const Expr reflects = x < 0.0, one = x.Like(1);
  // digamma(z) = digamma(z + 1) - 1 / z: the first quotient, which may be large, and the others as one fraction.
  const Expr start = Select(reflects, 1 - x, x), first = Select(start < 8.0, 1 / start, 0);
  Expr z = Select(start < 8.0, start + 1, start), numerator = one.Like(0), denominator = one;
  for (int i = 0; i < 7; ++i) {
    const Expr small = z < 8.0;
    numerator = Select(small, Fma(numerator, z, denominator), numerator);
    denominator = Select(small, denominator * z, denominator);
    z = Select(small, z + 1, z);
  }
  const Expr inverse = 1 / z, w = inverse * inverse;
  const Double log = SumLog(SplitLog(z));
  const Expr series = Fma(w, rest(w), inverse * 0.5) - log.lo;
  const Expr value = (log.hi - (series + numerator / denominator)) - first;
  // digamma(x) = digamma(1 - x) - pi / tan(pi x)
  const OfPi turns = SinCosPi(x);
  const Expr reflected = value - turns.cos * kPi / turns.sin;
  const Expr result = Select(reflects, reflected, value);
  const Expr is_integer = Round(x) == x;
  const Expr finite = Select(x < kInfinity, Select(reflects & is_integer, one.Like(kNaN), result), x);
  return Select(x == 0.0, Copysign(one.Like(kInfinity), -x), finite);
}

Expr DigammaF32(Expr x, Expr) {
  // minimax.py digamma.f32: error 2^-38
  const auto rest = [](Expr w) {
    return Polynomial(w, {0x1.555554989f8ebp-4, -0x1.11080c68ea039p-7, 0x1.f85ae4d352ed6p-9});
  };
  return Cast(DType::kFloat32, Digamma(Cast(DType::kFloat64, x), rest));
}

Expr DigammaF64(Expr x, Expr) {
  // minimax.py digamma.f64: error 2^-60
  return Digamma(x, [](Expr w) {
    return Polynomial(w, {0x1.5555555555549p-4, -0x1.11111110e8ac2p-7, 0x1.04104051f5e91p-8, -0x1.111056ba572e8p-8,
                          0x1.f01339ac4765fp-8, -0x1.51599f6af6f3dp-6, 0x1.f8496eeac2fe4p-5});
  });
}

}  // namespace

const Function kLgammaFunction = {
    .op = loop::Op::kLgamma,
    .f32 = LgammaF32,
    .f64 = LgammaF64,
    .reference = [](double x, double) { return static_cast<double>(std::lgamma(static_cast<long double>(x))); },
    .long_reference = [](long double x, long double) { return std::lgamma(x); },
};

const Function kDigammaFunction = {
    .op = loop::Op::kDigamma,
    .f32 = DigammaF32,
    .f64 = DigammaF64,
    .reference = [](double x, double) { return static_cast<double>(loop::Digamma(x)); },
    .long_reference = [](long double x, long double) { return loop::Digamma(x); },
};

}  // namespace kiln::mathlib
