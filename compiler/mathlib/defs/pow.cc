// pow: |x|^y = 2^(y log2|x|); sign and special cases as in Annex F of the C standard.
#include <cmath>
#include <limits>

#include "compiler/mathlib/defs/parts.h"
#include "compiler/mathlib/function.h"

namespace kiln::mathlib {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What log2 and exp2 leave open. `magnitude` is |x|^y wherever |x| is neither 1 nor NaN and y no NaN.
Expr WithSpecialCases(Expr x, Expr y, Expr magnitude) {
  const DType integer = x.type() == DType::kFloat32 ? DType::kInt32 : DType::kInt64;
  const Expr half = y * 0.5;
  const Expr is_integer = Round(y) == y, is_odd = is_integer & (Round(half) != half);
  // 1^y and (-1)^±inf are 1, and so is x^0, even for NaN.
  const Expr unit = Select((Abs(x) == 1.0) & (y == y), magnitude.Like(1), magnitude);
  const Expr negative = Bitcast(integer, x) < 0.0;
  const Expr is_signed = Select(negative & is_odd, -unit, unit);
  const Expr undefined = (x < 0.0) & (-kInfinity < x) & !is_integer;
  const Expr result = Select(undefined, is_signed.Like(std::numeric_limits<double>::quiet_NaN()), is_signed);
  return Select((x == 1.0) | (y == 0.0), result.Like(1), result);
}

// log2(x) for x >= 0 and NaN, from the value for positive finite x.
Expr WithLogLimits(Expr x, Expr finite) {
  return Select(x == 0.0, x.Like(-kInfinity), Select(x < kInfinity, finite, x));
}

// In f64 throughout, so the result is correctly rounded but for some 2^-9 ULP.
Expr PowF32(Expr x32, Expr y32) {
  const Expr x = Abs(Cast(DType::kFloat64, x32)), y = Cast(DType::kFloat64, y32);
  const Split split = SplitExponent(x);
  const Expr s = (split.m - 1) / (split.m + 1), z = s * s;
  // minimax.py log.pow32: error 2^-44
  const Expr q = Polynomial(
      z, {0x1.555555561e2dp-1, 0x1.999996a98ed5ap-2, 0x1.249411ce39a3dp-2, 0x1.c62b202a179aep-3, 0x1.9114da840d7dbp-3});
  const Expr log2 = Fma(Fma(s * z, q, s + s), 0x1.71547652b82fep+0, split.k);
  const Expr exponent = Max(Min(y * WithLogLimits(x, log2), 160), -160);
  const Rounded n = RoundByMagic(exponent);
  const Expr r = exponent - n.value;
  // minimax.py exp2.pow32: error 2^-34.3
  const Expr p = Polynomial(r, {0x1.62e42fef7b65ap-1, 0x1.ebfbe07ab7e49p-3, 0x1.c6b08df459b98p-5, 0x1.3b29f0fe560c8p-7,
                                0x1.5d8723abde1f1p-10, 0x1.445e6a560cabbp-13, 0x1.00f1323e93ff1p-16});
  const Expr magnitude = Cast(DType::kFloat32, Fma(r, p, 1.0) * PowerOfTwo(n.shifted));
  return WithSpecialCases(x32, y32, magnitude);
}

// log2(x) for positive finite x, with a relative error of some 2^-65.
Double Log2(Expr x) {
  const Split split = SplitExponent(x);
  // s = f / (2 + f), so that log(1 + f) = 2 atanh(s).
  const Expr f = split.m - 1;
  const Double d = FastTwoSum(f.Like(2), f);
  const Expr inverse = 1 / d.hi, s_hi = f * inverse;
  const Double s = {s_hi, Fma(-s_hi, d.lo, Fma(-s_hi, d.hi, f)) * inverse};
  const Double z = Times(s, s);
  // minimax.py log.pow64: error 2^-65.3. t = s^2 (2/3 + s^2 q)
  const Expr q =
      Polynomial(z.hi, {0x1.9999999999b3p-2, 0x1.2492492457d6ep-2, 0x1.c71c722d6484cp-3, 0x1.745ce9e40cf7ap-3,
                        0x1.3b1eebe9d0fcep-3, 0x1.0f7feca9c89ccp-3, 0x1.0e428feeed8e6p-3});
  const Double w = FastTwoSum(f.Like(0x1.5555555555555p-1), z.hi * q);
  const Double t = Times(z, {w.hi, w.lo + 0x1.5555555555555p-55});
  const Double u = Times(s, t);
  const Double twice = FastTwoSum(s.hi * 2, u.hi);
  const Double log = FastTwoSum(twice.hi, twice.lo + Fma(s.lo, 2.0, u.lo));
  const Double log2 = Times(log, {f.Like(0x1.71547652b82fep+0), f.Like(0x1.777d0ffda0d24p-56)});
  const Double sum = FastTwoSum(split.k, log2.hi);
  return FastTwoSum(sum.hi, sum.lo + log2.lo);
}

Expr PowF64(Expr x, Expr y) {
  const Expr magnitude = Abs(x);
  const Double log2 = Log2(magnitude);
  const Double product = TwoProduct(y, WithLogLimits(magnitude, log2.hi));
  const double limit = 1100;
  const Expr exponent = Max(Min(product.hi, limit), -limit);
  const Rounded n = RoundByMagic(exponent);
  // Beyond the limit the lower part may be infinity - infinity.
  const Expr lower = Select(Abs(product.hi) < limit, Fma(y, log2.lo, product.lo), 0);
  const Expr r = (exponent - n.value) + lower;
  // minimax.py exp2.pow64: error 2^-55.8
  const Expr p =
      Polynomial(r, {0x1.62e42fefa39efp-1, 0x1.ebfbdff82c548p-3, 0x1.c6b08d704a233p-5, 0x1.3b2ab6fbb43aap-7,
                     0x1.5d87fe78576bcp-10, 0x1.430912b34bd7fp-13, 0x1.ffcbfdfd5feb9p-17, 0x1.62c1328b97f16p-20,
                     0x1.b52172bfda45dp-24, 0x1.e100d5e7dce3bp-28, 0x1.ef6f3ffbab5f2p-32, 0x1.b572e2ff13318p-34});
  return WithSpecialCases(x, y, ScaleByPowerOfTwo(Fma(r, p, 1.0), n.value));
}

}  // namespace

const Function kPowFunction = {
    .op = loop::Op::kPow,
    .f32 = PowF32,
    .f64 = PowF64,
    .reference = [](double x, double y) { return std::pow(x, y); },
    .long_reference = [](long double x, long double y) { return std::pow(x, y); },
};

}  // namespace kiln::mathlib
