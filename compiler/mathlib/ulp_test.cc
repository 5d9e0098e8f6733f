// Errors against libm in the next wider format and against mpmath's golden values, within budgets/.
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "compiler/mathlib/budgets/budgets.h"
#include "compiler/mathlib/budgets/measured.h"
#include "compiler/mathlib/evaluate.h"
#include "compiler/mathlib/samples.h"
#include "gtest/gtest.h"

namespace kiln::mathlib {
namespace {

struct Ulp : testing::TestWithParam<const Function*> {};
INSTANTIATE_TEST_SUITE_P(All, Ulp, testing::ValuesIn(AllFunctions().begin(), AllFunctions().end()),
                         [](const auto& info) { return std::string(loop::Name(info.param->op)); });

// Every 257th bit pattern: all exponents, both signs, NaNs, subnormal numbers.
TEST_P(Ulp, F32) {
  const Budget budget = BudgetOf(GetParam()->op);
  const Worst<float> worst = MeasureF32(*GetParam(), 0, 257, budget.f32_floor);
  RecordProperty("ulp", std::to_string(worst.error));
  EXPECT_LE(worst.error, budget.f32) << worst.Describe();
  EXPECT_LE(worst.error, MeasuredOf(GetParam()->op).f32) << "measured.h is to say so: " << worst.Describe();
  EXPECT_LE(MeasuredOf(GetParam()->op).f32, budget.f32);
  EXPECT_GT(worst.error, 0.4) << "measures nothing?";
}

TEST_P(Ulp, F64) {
  const Budget budget = BudgetOf(GetParam()->op);
  const Worst<double> worst = MeasureF64(*GetParam(), 1, 400000, budget.f64_floor);
  RecordProperty("ulp", std::to_string(worst.error));
  EXPECT_LE(worst.error, budget.f64) << worst.Describe();
  EXPECT_LE(worst.error, MeasuredOf(GetParam()->op).f64) << "measured.h is to say so: " << worst.Describe();
  EXPECT_LE(MeasuredOf(GetParam()->op).f64, budget.f64);
  EXPECT_GT(worst.error, 0.4) << "measures nothing?";
}

// Torch computes 1 / sqrt(x) in f32: two roundings.
TEST(Rsqrt, IsBitEqualToEager) {
  Evaluator<float> evaluator(kRsqrtFunction);
  for (uint64_t bits = 0; bits <= 0xffffffff; bits += 4099) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    float got = 0;
    evaluator.Run(&x, &x, &got, 1);
    const float want = 1.0f / std::sqrt(x);
    ASSERT_TRUE(std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(want) || (std::isnan(got) && std::isnan(want)));
  }
}

struct Golden {
  loop::Op op;
  bool f32;
  double x, y;
  long double value;
};

TEST(GoldenValues, AreMet) {
  const std::vector<Golden> points = {
#define GOLDEN(op, f32, x, y, value) {loop::Op::op, f32, x, y, value},
#include "compiler/mathlib/golden/golden.inc"
#undef GOLDEN
  };
  for (const Function* function : AllFunctions()) {
    Evaluator<float> narrow(*function);
    Evaluator<double> wide(*function);
    const Budget budget = BudgetOf(function->op);
    int count = 0;
    for (const Golden& point : points) {
      if (point.op != function->op) continue;
      ++count;
      double result = 0;
      wide.Run(&point.x, &point.y, &result, 1);
      EXPECT_LE(UlpError(result, point.value, budget.f64_floor), budget.f64)
          << loop::Name(point.op) << " " << std::hexfloat << point.x << " " << point.y << " gives " << result;
      if (!point.f32) continue;
      const float x = static_cast<float>(point.x), y = static_cast<float>(point.y);
      float narrow_result = 0;
      narrow.Run(&x, &y, &narrow_result, 1);
      EXPECT_LE(UlpError(narrow_result, static_cast<double>(point.value), budget.f32_floor), budget.f32)
          << loop::Name(point.op) << " " << std::hexfloat << x << " " << y << " gives " << narrow_result;
    }
    EXPECT_TRUE(count > 30 || function->op == loop::Op::kRsqrt) << loop::Name(function->op);
  }
}

TEST(UlpError, CountsInUnitsOfTheLastPlace) {
  EXPECT_EQ(UlpError(1.0f, 1.0), 0);
  EXPECT_EQ(UlpError(1.0f + 0x1p-23f, 1.0), 1);
  EXPECT_EQ(UlpError(0x1p-149f, 0.0), 1);
  EXPECT_EQ(UlpError(INFINITY, 0x1.fffffep127), 1);
  EXPECT_EQ(UlpError(INFINITY, 1e200), 0);
  EXPECT_EQ(UlpError(NAN, 1.0), INFINITY);
  EXPECT_EQ(UlpError(NAN, static_cast<double>(NAN)), 0);
  EXPECT_EQ(UlpError(2.0, 2.0L + 0x1p-51L), 1);
}

}  // namespace
}  // namespace kiln::mathlib
