// NaN, infinities, zeros, subnormal numbers and the extremes, in f32 and in f64.
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "compiler/mathlib/evaluate.h"
#include "gtest/gtest.h"

namespace kiln::mathlib {
namespace {

template <typename T>
struct Special : testing::Test {
  using L = std::numeric_limits<T>;
  static constexpr T inf = L::infinity(), nan = L::quiet_NaN(), tiny = L::denorm_min(), least = L::min(),
                     most = L::max();

  static T Eval(const Function& function, T x, T y = 0) {
    Evaluator<T> evaluator(function);
    EXPECT_TRUE(evaluator.status().ok()) << evaluator.status();
    T result = 0;
    evaluator.Run(&x, &y, &result, 1);
    return result;
  }
  // Equal, with the sign of zero; all NaNs are alike.
  static bool Same(T a, T b) {
    return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
  }

  static bool IsNear(float got, float want) { return UlpError(got, static_cast<double>(want)) <= 1.5; }
  static bool IsNear(double got, double want) { return UlpError(got, static_cast<long double>(want)) <= 1.5; }

  static void Expect(const Function& function, T x, T want) {
    const T got = Eval(function, x);
    EXPECT_TRUE(Same(got, want)) << loop::Name(function.op) << "(" << x << ") is " << got << ", not " << want;
  }
  static void ExpectPow(T x, T y, T want) {
    const T got = Eval(kPowFunction, x, y);
    EXPECT_TRUE(Same(got, want)) << "pow(" << x << ", " << y << ") is " << got << ", not " << want;
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Special, Types);

TYPED_TEST(Special, NanIsPropagated) {
  for (const Function* function : AllFunctions()) {
    this->Expect(*function, this->nan, function->op == loop::Op::kPow ? TypeParam(1) : this->nan);  // x^0 is 1
    this->Expect(*function, -this->nan, function->op == loop::Op::kPow ? TypeParam(1) : this->nan);
  }
}

TYPED_TEST(Special, Exp) {
  this->Expect(kExpFunction, 0, 1);
  this->Expect(kExpFunction, -TypeParam(0), 1);
  this->Expect(kExpFunction, this->inf, this->inf);
  this->Expect(kExpFunction, -this->inf, 0);
  this->Expect(kExpFunction, this->most, this->inf);
  this->Expect(kExpFunction, -this->most, 0);
  this->Expect(kExpFunction, this->tiny, 1);
  // The borders of overflow and underflow, and a subnormal result.
  const bool f32 = sizeof(TypeParam) == 4;
  const TypeParam high = f32 ? 0x1.62e42ep+6 : 0x1.62e42fefa39efp+9, low = f32 ? -0x1.9fe368p+6 : -0x1.74910d52d3051p+9;
  EXPECT_TRUE(std::isfinite(this->Eval(kExpFunction, high)));
  this->Expect(kExpFunction, std::nextafter(high, this->inf), this->inf);
  this->Expect(kExpFunction, low, this->tiny);
  this->Expect(kExpFunction, std::nextafter(low, -this->inf), 0);
}

TYPED_TEST(Special, Log) {
  this->Expect(kLogFunction, 1, 0);
  this->Expect(kLogFunction, 0, -this->inf);
  this->Expect(kLogFunction, -TypeParam(0), -this->inf);
  this->Expect(kLogFunction, -1, this->nan);
  this->Expect(kLogFunction, -this->tiny, this->nan);
  this->Expect(kLogFunction, -this->inf, this->nan);
  this->Expect(kLogFunction, this->inf, this->inf);
  this->Expect(kLogFunction, this->tiny, std::log(this->tiny));
  this->Expect(kLogFunction, this->least, std::log(this->least));
  this->Expect(kLogFunction, this->most, std::log(this->most));
}

TYPED_TEST(Special, OddFunctionsKeepZerosAndTinyArguments) {
  for (const Function* function : {&kSinFunction, &kTanhFunction, &kErfFunction}) {
    this->Expect(*function, 0, 0);
    this->Expect(*function, -TypeParam(0), -TypeParam(0));
  }
  for (const Function* function : {&kSinFunction, &kTanhFunction}) {
    for (TypeParam x : {this->tiny, -this->tiny, this->least, -3 * this->least, TypeParam(1e-30)})
      this->Expect(*function, x, x);
  }
  // erf(x) = 2 / sqrt(pi) x, rounded once, subnormal results too.
  this->Expect(kErfFunction, this->tiny, this->tiny);
  this->Expect(kErfFunction, -8 * this->tiny, -9 * this->tiny);
}

// Odd functions with derivative 1 at 0 keep zeros, and tiny arguments too.
TYPED_TEST(Special, NewOddFunctionsKeepZerosAndTinyArguments) {
  for (const Function* function : {&kExpm1Function, &kLog1pFunction, &kTanFunction, &kAsinFunction, &kAtanFunction,
                                   &kSinhFunction, &kAsinhFunction, &kAtanhFunction}) {
    for (TypeParam x : {TypeParam(0), -TypeParam(0), this->tiny, -this->tiny, this->least, -3 * this->least}) {
      this->Expect(*function, x, x);
    }
  }
  this->Expect(kErfinvFunction, -TypeParam(0), -TypeParam(0));
}

TYPED_TEST(Special, DomainsAndLimits) {
  using T = TypeParam;
  struct Case {
    const Function* function;
    T x, want;
  };
  const T inf = this->inf, nan = this->nan, most = this->most, pi_2 = static_cast<T>(M_PI_2), pi = static_cast<T>(M_PI);
  const Case cases[] = {
      {&kExp2Function, inf, inf},      {&kExp2Function, -inf, 0},       {&kExp2Function, 10, 1024},
      {&kExpm1Function, inf, inf},     {&kExpm1Function, -inf, -1},     {&kExpm1Function, most, inf},
      {&kLog2Function, 0, -inf},       {&kLog2Function, -1, nan},       {&kLog2Function, 1024, 10},
      {&kLog2Function, inf, inf},      {&kLog10Function, 1000, 3},      {&kLog10Function, -T(0), -inf},
      {&kLog10Function, -inf, nan},    {&kLog10Function, inf, inf},     {&kLog1pFunction, -1, -inf},
      {&kLog1pFunction, -2, nan},      {&kLog1pFunction, inf, inf},     {&kLog1pFunction, -inf, nan},
      {&kTanFunction, inf, nan},       {&kAsinFunction, 1, pi_2},       {&kAsinFunction, -1, -pi_2},
      {&kAsinFunction, 2, nan},        {&kAcosFunction, 1, 0},          {&kAcosFunction, -1, pi},
      {&kAcosFunction, -inf, nan},     {&kAcosFunction, 0, pi_2},       {&kAtanFunction, inf, pi_2},
      {&kAtanFunction, -inf, -pi_2},   {&kSinhFunction, inf, inf},      {&kSinhFunction, -inf, -inf},
      {&kSinhFunction, most, inf},     {&kCoshFunction, 0, 1},          {&kCoshFunction, -inf, inf},
      {&kCoshFunction, -most, inf},    {&kAsinhFunction, inf, inf},     {&kAsinhFunction, -inf, -inf},
      {&kAcoshFunction, 1, 0},         {&kAcoshFunction, T(0.5), nan},  {&kAcoshFunction, inf, inf},
      {&kAcoshFunction, -inf, nan},    {&kAtanhFunction, 1, inf},       {&kAtanhFunction, -1, -inf},
      {&kAtanhFunction, 2, nan},       {&kAtanhFunction, -inf, nan},    {&kErfcFunction, 0, 1},
      {&kErfcFunction, inf, 0},        {&kErfcFunction, -inf, 2},       {&kErfinvFunction, 1, inf},
      {&kErfinvFunction, -1, -inf},    {&kErfinvFunction, T(1.5), nan}, {&kErfinvFunction, inf, nan},
      {&kLgammaFunction, 0, inf},      {&kLgammaFunction, -T(0), inf},  {&kLgammaFunction, 1, 0},
      {&kLgammaFunction, 2, 0},        {&kLgammaFunction, -3, inf},     {&kLgammaFunction, inf, inf},
      {&kLgammaFunction, -inf, inf},   {&kLgammaFunction, -most, inf},  {&kDigammaFunction, 0, -inf},
      {&kDigammaFunction, -T(0), inf}, {&kDigammaFunction, -2, nan},    {&kDigammaFunction, inf, inf},
      {&kDigammaFunction, -inf, nan},  {&kDigammaFunction, -most, nan},
  };
  for (const Case& c : cases) this->Expect(*c.function, c.x, c.want);
}

// Every pair of special operands, as Annex F has them: libm's answers.
TYPED_TEST(Special, Atan2AndHypotOfEveryPair) {
  using T = TypeParam;
  const std::vector<T> values = {0,          -T(0),     1,          -1,          T(0.5),      3,          this->inf,
                                 -this->inf, this->nan, this->tiny, -this->tiny, this->least, this->most, -this->most};
  for (T x : values) {
    for (T y : values) {
      const T angle = this->Eval(kAtan2Function, x, y), length = this->Eval(kHypotFunction, x, y);
      EXPECT_TRUE(this->Same(angle, std::atan2(x, y)) || (this->IsNear(angle, std::atan2(x, y)) && angle != 0))
          << "atan2(" << x << ", " << y << ") is " << angle;
      EXPECT_TRUE(this->Same(length, std::hypot(x, y)) || this->IsNear(length, std::hypot(x, y)))
          << "hypot(" << x << ", " << y << ") is " << length;
    }
  }
}

TYPED_TEST(Special, SinAndCos) {
  this->Expect(kCosFunction, 0, 1);
  this->Expect(kCosFunction, this->tiny, 1);
  for (const Function* function : {&kSinFunction, &kCosFunction}) {
    this->Expect(*function, this->inf, this->nan);
    this->Expect(*function, -this->inf, this->nan);
  }
}

TYPED_TEST(Special, TanhAndErfSaturate) {
  for (const Function* function : {&kTanhFunction, &kErfFunction}) {
    for (TypeParam x : {TypeParam(30), this->most, this->inf}) {
      this->Expect(*function, x, 1);
      this->Expect(*function, -x, -1);
    }
  }
}

TYPED_TEST(Special, RsqrtIsTwoRoundings) {
  for (TypeParam x : {TypeParam(2), TypeParam(3), TypeParam(10), this->tiny, this->least, this->most}) {
    this->Expect(kRsqrtFunction, x, 1 / std::sqrt(x));
  }
  this->Expect(kRsqrtFunction, 0, this->inf);
  this->Expect(kRsqrtFunction, -TypeParam(0), -this->inf);
  this->Expect(kRsqrtFunction, this->inf, 0);
  this->Expect(kRsqrtFunction, -1, this->nan);
}

// Every pair of special operands, as C's pow (Annex F) has them.
TYPED_TEST(Special, PowOfEveryPair) {
  const TypeParam one = 1;
  const std::vector<TypeParam> values = {0,
                                         -TypeParam(0),
                                         1,
                                         -1,
                                         2,
                                         -2,
                                         0.5,
                                         -0.5,
                                         3,
                                         -3,
                                         4,
                                         2.5,
                                         -2.5,
                                         this->inf,
                                         -this->inf,
                                         this->nan,
                                         this->tiny,
                                         -this->tiny,
                                         this->most,
                                         -this->most,
                                         1e9,
                                         -1e9,
                                         std::nextafter(one, this->inf),
                                         std::nextafter(one, TypeParam(0))};
  for (TypeParam x : values) {
    for (TypeParam y : values) {
      const TypeParam want = std::pow(x, y), got = this->Eval(kPowFunction, x, y);
      EXPECT_TRUE(this->Same(got, want) || (std::isfinite(want) && want != 0 && this->IsNear(got, want)))
          << "pow(" << x << ", " << y << ") is " << got << ", not " << want;
    }
  }
}

TYPED_TEST(Special, PowExactCases) {
  this->ExpectPow(-8, 3, -512);
  this->ExpectPow(2, 10, 1024);
  this->ExpectPow(-this->inf, 3, -this->inf);
  this->ExpectPow(-this->inf, -3, -TypeParam(0));
  this->ExpectPow(-TypeParam(0), -3, -this->inf);
  this->ExpectPow(-TypeParam(0), -2, this->inf);
  this->ExpectPow(-1, this->inf, 1);
  this->ExpectPow(1, this->nan, 1);
  this->ExpectPow(this->nan, 0, 1);
  this->ExpectPow(-2, 0.5, this->nan);
  this->ExpectPow(2, std::numeric_limits<TypeParam>::min_exponent - 1, this->least);
  this->ExpectPow(2, std::numeric_limits<TypeParam>::min_exponent - std::numeric_limits<TypeParam>::digits, this->tiny);
}

}  // namespace
}  // namespace kiln::mathlib
