// hypot: sqrt(x^2 + y^2) of scaled operands; for f64 with the error of the root corrected (C. F. Borges, An Improved
// Algorithm for hypot(a,b), 2019).
#include <cmath>
#include <limits>

#include "compiler/mathlib/defs/parts.h"
#include "compiler/mathlib/function.h"

namespace kiln::mathlib {
namespace {

// Infinite even beside NaN.
Expr WithInfinities(Expr x, Expr y, Expr finite) {
  const double infinity = std::numeric_limits<double>::infinity();
  return Select((Abs(x) == infinity) | (Abs(y) == infinity), finite.Like(infinity), finite);
}

// In f64, where squares neither overflow nor underflow.
Expr HypotF32(Expr x32, Expr y32) {
  const Expr x = Cast(DType::kFloat64, x32), y = Cast(DType::kFloat64, y32);
  return WithInfinities(x32, y32, Cast(DType::kFloat32, Sqrt(Fma(x, x, y * y))));
}

Expr HypotF64(Expr x, Expr y) {
  const Expr ax = Abs(x), ay = Abs(y), swapped = ax < ay;
  const Expr larger = Select(swapped, ay, ax), smaller = Select(swapped, ax, ay);
  const Expr down = 0x1p500 < larger, up = larger < 0x1p-400;
  const Expr one = x.Like(1);
  const Expr scale = Select(down, one.Like(0x1p-600), Select(up, one.Like(0x1p600), one));
  const Expr back = Select(down, one.Like(0x1p600), Select(up, one.Like(0x1p-600), one));
  const Expr a = larger * scale, b = smaller * scale;
  const Double a2 = TwoProduct(a, a), b2 = TwoProduct(b, b);
  const Double sum = FastTwoSum(a2.hi, b2.hi);
  const Expr root = Sqrt(sum.hi);
  const Expr rest = Fma(-root, root, sum.hi) + (sum.lo + (a2.lo + b2.lo));
  const Expr corrected = Select(root == 0.0, root, root + rest / (root * 2));
  return WithInfinities(x, y, Select((x == x) & (y == y), corrected * back, x + y));
}

}  // namespace

const Function kHypotFunction = {
    .op = loop::Op::kHypot,
    .f32 = HypotF32,
    .f64 = HypotF64,
    .reference = [](double x, double y) { return std::hypot(x, y); },
    .long_reference = [](long double x, long double y) { return std::hypot(x, y); },
};

}  // namespace kiln::mathlib
