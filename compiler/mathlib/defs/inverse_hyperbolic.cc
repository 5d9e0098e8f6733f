// asinh, acosh and atanh as log1p of an argument in two parts: with the rounding error of the argument known, only that
// of the logarithm counts (W. Kahan, Branch Cuts for Complex Elementary Functions, for the arguments).
#include <cmath>
#include <limits>

#include "compiler/mathlib/defs/logs.h"
#include "compiler/mathlib/function.h"

namespace kiln::mathlib {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// From here on asinh(x) and acosh(x) are log(2 x), as 1 + x is x.
double Large(Expr x) { return IsF32(x) ? 0x1p28 : 0x1p60; }

// log(1 + argument), or log(2 x) for a large x.
Expr LogOf(Expr x, Double argument) {
  const Expr large = Large(x) < x;
  LogParts parts = SplitLog1p(Select(large, x, argument.hi), Select(large, 0, argument.lo));
  parts.k = Select(large, parts.k + 1, parts.k);
  const Double sum = SumLog(parts);
  return sum.hi + sum.lo;
}

// asinh(x) = log(1 + x + x^2 / (1 + sqrt(1 + x^2))) for x >= 0.
Expr Asinh(Expr x, Expr) {
  const Expr a = Abs(x), square = a * a;
  const Expr rest = square / (Sqrt(square + 1) + 1);
  const Expr log = LogOf(a, TwoSum(a, rest));
  const Expr keeps = a < (IsF32(x) ? 0x1p-13 : 0x1p-28);  // zeros and subnormal numbers too
  return Select(keeps | !(a < kInfinity), x, Copysign(log, x));
}

// acosh(1 + t) = log(1 + t + sqrt(2 t + t^2))
Expr Acosh(Expr x, Expr) {
  const Expr t = x - 1, twice = t * 2;
  const Expr w = Fma(t, t, twice), root = Sqrt(w);
  // What w and the root are short of; for t > 2 the logarithm does not see the first.
  const Expr w_error = Select(t < 2.0, Fma(t, t, twice - w), 0);
  const Expr root_error = (Fma(-root, root, w) + w_error) / (root * 2);
  const Double sum = TwoSum(root, t);
  const Expr log = LogOf(x, {sum.hi, sum.lo + root_error});
  const Expr finite = Select(x < kInfinity, log, x);
  return Select(1.0 < x, finite, Select(x == 1.0, x.Like(0), std::numeric_limits<double>::quiet_NaN()));
}

// atanh(x) = log(1 + 2 x / (1 - x)) / 2 for x >= 0.
Expr Atanh(Expr x, Expr) {
  const Expr a = Abs(x);
  const Double d = FastTwoSum(a.Like(1), -a);
  const Expr inverse = 1 / d.hi, twice = a * 2, quotient = twice * inverse;
  const Expr error = Fma(-quotient, d.lo, Fma(-quotient, d.hi, twice)) * inverse;
  const Double sum = SumLog(SplitLog1p(quotient, error));
  const Expr inside = Select(a < (IsF32(x) ? 0x1p-13 : 0x1p-28), x, Copysign((sum.hi + sum.lo) * 0.5, x));
  const Expr at_one = Copysign(a.Like(kInfinity), x);
  return Select(a < 1.0, inside, Select(a == 1.0, at_one, std::numeric_limits<double>::quiet_NaN()));
}

}  // namespace

const Function kAsinhFunction = {
    .op = loop::Op::kAsinh,
    .f32 = Asinh,
    .f64 = Asinh,
    .reference = [](double x, double) { return std::asinh(x); },
    .long_reference = [](long double x, long double) { return std::asinh(x); },
};

const Function kAcoshFunction = {
    .op = loop::Op::kAcosh,
    .f32 = Acosh,
    .f64 = Acosh,
    .reference = [](double x, double) { return std::acosh(x); },
    .long_reference = [](long double x, long double) { return std::acosh(x); },
};

const Function kAtanhFunction = {
    .op = loop::Op::kAtanh,
    .f32 = Atanh,
    .f64 = Atanh,
    .reference = [](double x, double) { return std::atanh(x); },
    .long_reference = [](long double x, long double) { return std::atanh(x); },
};

}  // namespace kiln::mathlib
