// log, log2, log10: x = m 2^k with m in [sqrt(1/2), sqrt(2)), log(x) = k ln(2) + log(m), the small terms added first.
// log2 and log10 multiply log(m) by the factor between bases in two parts, so that k is not disturbed (as the C library
// of FreeBSD does). log1p finds m and k from 1 + x rounded, and then m - 1 exactly from x.
#include <cmath>
#include <limits>

#include "compiler/mathlib/defs/logs.h"
#include "compiler/mathlib/function.h"

namespace kiln::mathlib {
namespace {

Expr Log(Expr x, Expr) {
  const Double sum = SumLog(SplitLog(x));
  return WithLogCases(x, sum.hi + sum.lo);
}

// k step + (f + small) factor, each constant in two parts; k step.hi is exact.
struct Parts {
  double hi, lo;
};
Expr LogTo(Expr x, Parts step, Parts factor) {
  const LogParts parts = SplitLog(x);
  const Double log = FastTwoSum(parts.f, parts.small);
  const Double product = Times(log, {x.Like(factor.hi), x.Like(factor.lo)});
  const Double sum = FastTwoSum(parts.k * step.hi, product.hi);
  const Expr lo = step.lo == 0 ? product.lo : Fma(parts.k, step.lo, product.lo);
  return WithLogCases(x, sum.hi + (sum.lo + lo));
}

Expr Log2F32(Expr x, Expr) { return LogTo(x, {1, 0}, {0x1.715476p+0, 0x1.4ae0cp-26}); }
Expr Log2F64(Expr x, Expr) { return LogTo(x, {1, 0}, {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56}); }
Expr Log10F32(Expr x, Expr) { return LogTo(x, {0x1.344p-2, 0x1.3509f8p-18}, {0x1.bcb7b2p-2, -0x1.5b235ep-27}); }
Expr Log10F64(Expr x, Expr) {
  return LogTo(x, {0x1.34413509f8p-2, -0x1.80433b83b532ap-44}, {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57});
}

Expr Log1p(Expr x, Expr) {
  const Double sum = SumLog(SplitLog1p(x));
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Expr finite = Select(x == 0.0, x, sum.hi + sum.lo);  // keeps -0
  return Select(-1.0 < x, Select(x < infinity, finite, x), Select(x == -1.0, x.Like(-infinity), nan));
}

}  // namespace

const Function kLogFunction = {
    .op = loop::Op::kLog,
    .f32 = Log,
    .f64 = Log,
    .reference = [](double x, double) { return std::log(x); },
    .long_reference = [](long double x, long double) { return std::log(x); },
};

const Function kLog2Function = {
    .op = loop::Op::kLog2,
    .f32 = Log2F32,
    .f64 = Log2F64,
    .reference = [](double x, double) { return std::log2(x); },
    .long_reference = [](long double x, long double) { return std::log2(x); },
};

const Function kLog10Function = {
    .op = loop::Op::kLog10,
    .f32 = Log10F32,
    .f64 = Log10F64,
    .reference = [](double x, double) { return std::log10(x); },
    .long_reference = [](long double x, long double) { return std::log10(x); },
};

const Function kLog1pFunction = {
    .op = loop::Op::kLog1p,
    .f32 = Log1p,
    .f64 = Log1p,
    .reference = [](double x, double) { return std::log1p(x); },
    .long_reference = [](long double x, long double) { return std::log1p(x); },
};

}  // namespace kiln::mathlib
