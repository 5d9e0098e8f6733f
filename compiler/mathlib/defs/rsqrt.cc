// rsqrt: two correctly rounded operations, as torch computes it on the CPU, so bit-equal to eager.
#include <cmath>

#include "compiler/mathlib/function.h"

namespace kiln::mathlib {
namespace {

Expr Rsqrt(Expr x, Expr) { return 1 / Sqrt(x); }

}  // namespace

const Function kRsqrtFunction = {
    .op = loop::Op::kRsqrt,
    .f32 = Rsqrt,
    .f64 = Rsqrt,
    .reference = [](double x, double) { return 1 / std::sqrt(x); },
    .long_reference = [](long double x, long double) { return 1 / std::sqrt(x); },
};

}  // namespace kiln::mathlib
