#include "compiler/mathlib/defs/parts.h"

namespace kiln::mathlib {
namespace {

constexpr Format kF32 = {DType::kUInt32, 23, 127, 0x1.8p23};
constexpr Format kF64 = {DType::kUInt64, 52, 1023, 0x1.8p52};

// ln(2) in two parts; the product of the first with an exponent is exact.
constexpr double kLn2HiF32 = 0x1.62e4p-1, kLn2LoF32 = 0x1.7f7d1cp-20;
constexpr double kLn2HiF64 = 0x1.62e42feep-1, kLn2LoF64 = 0x1.a39ef35793c76p-33;

}  // namespace

const Format& FormatOf(Expr x) { return x.type() == DType::kFloat32 ? kF32 : kF64; }

Rounded RoundByMagic(Expr x) {
  const double magic = FormatOf(x).magic;
  const Expr shifted = x + magic;
  return {shifted - magic, shifted};
}

Rounded RoundByMagic(Expr x, double factor) {
  const double magic = FormatOf(x).magic;
  const Expr shifted = Fma(x, factor, magic);
  return {shifted - magic, shifted};
}

Expr PowerOfTwo(Expr shifted) {
  const Format& format = FormatOf(shifted);
  return Bitcast(shifted.type(), (Bitcast(format.bits, shifted) + format.bias) << format.mantissa);
}

Expr ScaleByPowerOfTwo(Expr p, Expr n) {
  // Two factors, so that neither leaves the range of exponents; only the last product can round.
  const Rounded half = RoundByMagic(n, 0.5);
  const Expr rest = (n - half.value) + FormatOf(p).magic;
  return p * PowerOfTwo(half.shifted) * PowerOfTwo(rest);
}

Split SplitExponent(Expr x) {
  const Format& format = FormatOf(x);
  const bool is_f32 = x.type() == DType::kFloat32;
  const double up = is_f32 ? 0x1p23 : 0x1p52;
  const Expr subnormal = x < (is_f32 ? 0x1p-126 : 0x1p-1022);
  const Expr bits = Bitcast(format.bits, Select(subnormal, x * up, x));
  // Moves the border between exponents from 1 to sqrt(1/2).
  const uint64_t one = is_f32 ? 0x3f800000 : 0x3ff0000000000000, low = is_f32 ? 0x3f3504f3 : 0x3fe6a09e667f3bcd;
  const Expr moved = bits + bits.Bits(one - low);
  const Expr m = Bitcast(x.type(), (moved & bits.Bits((uint64_t{1} << format.mantissa) - 1)) + bits.Bits(low));
  // The biased exponent as the low bits of 2^mantissa.
  const double shift = is_f32 ? 0x1p23 : 0x1p52;
  const Expr biased =
      Bitcast(x.type(), (moved >> format.mantissa) | bits.Bits(is_f32 ? 0x4b000000 : 0x4330000000000000));
  const Expr bias = Select(subnormal, biased.Like(shift + format.bias + format.mantissa), shift + format.bias);
  return {m, biased - bias};
}

Reduced ReduceByLn2(Expr x) {
  const bool is_f32 = x.type() == DType::kFloat32;
  const Rounded n = RoundByMagic(x, 0x1.71547652b82fep+0);  // 1 / ln(2)
  const Expr r = Fma(n.value, is_f32 ? -kLn2HiF32 : -kLn2HiF64, x);
  return {n, Fma(n.value, is_f32 ? -kLn2LoF32 : -kLn2LoF64, r)};
}

Expr ReductionError(Expr x, const Reduced& reduced) {
  const bool is_f32 = IsF32(x);
  const Expr n = reduced.n.value, r = Fma(n, is_f32 ? -kLn2HiF32 : -kLn2HiF64, x);  // exact
  return Fma(n, is_f32 ? -kLn2LoF32 : -kLn2LoF64, r - reduced.r);
}

Expr ExpOfReduced(Expr r) {
  // minimax.py exp.f32, exp.f64: errors 2^-28.2, 2^-62
  const Expr q =
      IsF32(r)
          ? Polynomial(r, {0x1p-1, 0x1.55548ap-3, 0x1.55552ap-5, 0x1.123ef8p-7, 0x1.6ced84p-10})
          : Polynomial(r, {0x1p-1, 0x1.555555555555cp-3, 0x1.5555555555556p-5, 0x1.111111110e97dp-7,
                           0x1.6c16c16c15f2cp-10, 0x1.a01a01b48ee9cp-13, 0x1.a01a01a8f770bp-16, 0x1.71dded537147ap-19,
                           0x1.27e4d5cdf22c2p-22, 0x1.af713dd269344p-26, 0x1.1f7bae9d4bedep-29});
  return Fma(r * r, q, r) + 1;
}

Expr ExpWithinRange(Expr x) {
  const Reduced reduced = ReduceByLn2(x);
  return ExpOfReduced(reduced.r) * PowerOfTwo(reduced.n.shifted);
}

Expr Expm1OfReduced(Expr r, Expr r_error) {
  // minimax.py expm1.f32, expm1.f64: errors 2^-29, 2^-61
  const Expr q =
      IsF32(r)
          ? Polynomial(r, {0x1p-1, 0x1.555542p-3, 0x1.55553p-5, 0x1.112d6ep-7, 0x1.6ceec6p-10, 0x1.7ac8d2p-13})
          : Polynomial(r, {0x1p-1, 0x1.5555555555555p-3, 0x1.5555555555556p-5, 0x1.111111111139cp-7,
                           0x1.6c16c16c16f71p-10, 0x1.a01a019eb4271p-13, 0x1.a01a019fc0fe6p-16, 0x1.71de3edd32312p-19,
                           0x1.27e4ef6fb91bcp-22, 0x1.ae597e49df681p-26, 0x1.1f4e3037555acp-29, 0x1.670d5957ff949p-33});
  const Expr square = r * r;
  return r + Fma(square, q, Fma(r_error, Fma(square, q, r), r_error));
}

Double TwoSum(Expr a, Expr b) {
  const Expr sum = a + b;
  const Expr b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

Double FastTwoSum(Expr a, Expr b) {
  const Expr sum = a + b;
  return {sum, b - (sum - a)};
}

Double TwoProduct(Expr a, Expr b) {
  const Expr product = a * b;
  return {product, Fma(a, b, -product)};
}

Double Times(Double a, Double b) {
  const Double product = TwoProduct(a.hi, b.hi);
  return {product.hi, product.lo + Fma(a.hi, b.lo, a.lo * b.hi)};
}

}  // namespace kiln::mathlib
