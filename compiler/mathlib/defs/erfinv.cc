// erfinv: x q(w) with w = -log(1 - x^2), in which the function is smooth; a polynomial of w near 0, of sqrt(w) further
// out (M. Giles, Approximating the erfinv function, GPU Computing Gems 2010, for the form).
#include <cmath>
#include <limits>

#include "compiler/loop/special.h"
#include "compiler/mathlib/defs/logs.h"
#include "compiler/mathlib/function.h"

namespace kiln::mathlib {
namespace {

Expr WithErfinvCases(Expr x, Expr inside) {
  const Expr at_one = Copysign(x.Like(std::numeric_limits<double>::infinity()), x);
  return Select(Abs(x) < 1.0, inside, Select(Abs(x) == 1.0, at_one, std::numeric_limits<double>::quiet_NaN()));
}

// In f64: the result is rounded once.
Expr ErfinvF32(Expr x32, Expr) {
  const Expr x = Cast(DType::kFloat64, x32);
  const Expr y = 1 - x * x;  // exact
  const Split split = SplitExponent(y);
  const Expr s = (split.m - 1) / (split.m + 1), z = s * s;
  // minimax.py log.pow32: error 2^-44
  const Expr q = Polynomial(
      z, {0x1.555555561e2dp-1, 0x1.999996a98ed5ap-2, 0x1.249411ce39a3dp-2, 0x1.c62b202a179aep-3, 0x1.9114da840d7dbp-3});
  const Expr w = -Fma(split.k, 0x1.62e42fefa39efp-1, Fma(s * z, q, s + s));
  // minimax.py erfinv.f32.near, erfinv.f32.far: errors 2^-30, 2^-29
  const Expr near =
      Polynomial(w - 2.5, {0x1.805c5cff7f90ap+0, 0x1.f91e8997096b8p-3, -0x1.11c3e141617b8p-8, -0x1.4863d3df2ef0ep-10,
                           0x1.c9bb71a457ee9p-13, -0x1.4f41e7ccdbf4bp-18, -0x1.cbd76a293311cp-19, 0x1.00f05716787e1p-21,
                           0x1.1af6c01ddf00ep-26, -0x1.749f4e059c1p-27, 0x1.df93f718f1c06p-32, 0x1.0d48aeef6742bp-33});
  const Expr far =
      Polynomial(Sqrt(Max(w, 4.0)) - 3.125,
                 {0x1.7aaa3c11095d2p+1, 0x1.00f3b57e0f585p+0, 0x1.cde62416a585cp-8, -0x1.5b6daed8292c9p-8,
                  0x1.f114e556fa989p-9, -0x1.49f043aeea079p-9, 0x1.4d462c712195dp-10, -0x1.627d0e00d89b5p-12,
                  -0x1.e3c998bdd84cbp-14, 0x1.406ac2647dc6bp-13, -0x1.fc3b6d9bb480ep-16, -0x1.b01891da87c42p-17});
  return WithErfinvCases(x32, Cast(DType::kFloat32, Select(w < 5.0, near, far) * x));
}

Expr ErfinvF64(Expr x, Expr) {
  // 1 - x^2 with its rounding error, of which the logarithm's derivative makes a correction.
  const Double square = TwoProduct(x, x), rounded = FastTwoSum(x.Like(1), -square.hi);
  const Double y = FastTwoSum(rounded.hi, rounded.lo - square.lo);
  const Double log = SumLog(SplitLog(y.hi));
  const Expr w = -(log.hi + (log.lo + y.lo / y.hi));
  // minimax.py erfinv.f64.near, erfinv.f64.far: errors 2^-55, 2^-54
  const Expr near = Polynomial(
      w - 3.125, {0x1.a755e7c99ae86p+0,   0x1.ebd80d9b13df9p-3,   -0x1.8b6c33114ea6dp-8,  -0x1.84576948350f3p-11,
                  0x1.879c2a20b1125p-13,  -0x1.d1d1f7ca7122ap-17, -0x1.6e8a53c9eef52p-20, 0x1.c6b4f89b78aa3p-22,
                  -0x1.f36cee45c354p-26,  -0x1.1a9eb452baad3p-28, 0x1.20f53fa92e438p-30,  -0x1.dc3e2c6c28489p-35,
                  -0x1.c8a5bb80fadd3p-37, 0x1.7230e0bd49a65p-39,  -0x1.6ba49554b10c9p-44, -0x1.6824730d39423p-45,
                  0x1.d636100a111dcp-48,  -0x1.9de24c320582bp-55, -0x1.1ab2ccd8b99f9p-53, 0x1.284fff5b547b5p-56,
                  0x1.78670a6c4a96fp-61,  -0x1.c42d98161a9bdp-62, 0x1.6376c98c9a97p-66,   0x1.55f26ef5eef97p-68,
                  -0x1.9a2fd5c5f2d65p-72, -0x1.a71280ed5e9f5p-76});
  const Expr far =
      Polynomial(Sqrt(Max(w, 6.0)) - 4.25,
                 {0x1.05e6fd13251afp+2,   0x1.028defb613f91p+0,   0x1.75afae951fc66p-11,  -0x1.3eb627bd71c2bp-11,
                  0x1.bcf78168e954bp-13,  -0x1.0e322e25580b7p-14, 0x1.70c3ef9bb4c9fp-16,  -0x1.562d4c229d4ap-17,
                  0x1.85b806880ffcp-18,   -0x1.aefd2d8af0907p-19, 0x1.9004fe197a35cp-20,  -0x1.14a42b332eb64p-21,
                  0x1.909318e275da4p-24,  0x1.b8a5a1808c81ep-26,  -0x1.02ab0788f33dap-25, 0x1.cc5fecf2604eap-27,
                  -0x1.a8df7a08ce989p-29, -0x1.61b622e08b765p-33, 0x1.05fc2a8cd56acp-31,  -0x1.bbfcf9300a98ap-33,
                  0x1.f12d56501236fp-36,  0x1.1bcef2ea79e97p-37,  -0x1.634e862f4d2abp-39, 0x1.003cdb312900cp-42,
                  -0x1.4eab35611efb3p-41, 0x1.cb7aa05b41e9p-43,   0x1.1f012c0b0a86ep-44,  -0x1.10ecbb9e6aea4p-45,
                  -0x1.880111e71f93ap-50, 0x1.4f12a5dbee7e2p-50});
  return WithErfinvCases(x, Select(w < 6.25, near, far) * x);
}

}  // namespace

const Function kErfinvFunction = {
    .op = loop::Op::kErfinv,
    .f32 = ErfinvF32,
    .f64 = ErfinvF64,
    .reference = [](double x, double) { return static_cast<double>(loop::ErfInv(x)); },
    .long_reference = [](long double x, long double) { return loop::ErfInv(x); },
};

}  // namespace kiln::mathlib
