// All 2^32 inputs of every f32 function of one operand, as native code, beside the f64 definition as native code: some
// 20 s a function. The f64 definitions are themselves held to libm's long double (mathlib/ulp_test.cc), so what they
// add is below 2^-27 units here. Prints the rows of mathlib/budgets/measured.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "compiler/codegen/cpu/mathlib_kernel.h"
#include "compiler/mathlib/budgets/budgets.h"
#include "compiler/mathlib/evaluate.h"
#include "compiler/mathlib/function.h"

namespace kiln {
namespace {

constexpr size_t kBlock = 4096;

struct Exhaustive : testing::TestWithParam<const mathlib::Function*> {};

std::vector<const mathlib::Function*> OfOneOperand() {
  std::vector<const mathlib::Function*> functions;
  for (const mathlib::Function* function : mathlib::AllFunctions()) {
    if (loop::Arity(function->op) == 1) functions.push_back(function);
  }
  return functions;
}

// UlpError without its general cases, which vectorises: the unit is that of f32 at |want|.
double FastError(float got, double want, double floor) {
  const double size = std::max({std::fabs(want), floor, 0x1p-126});
  const uint64_t exponent = std::bit_cast<uint64_t>(size) & 0x7ff0000000000000;
  return std::fabs(got - want) / std::bit_cast<double>(exponent) * 0x1p23;
}

TEST_P(Exhaustive, F32) {
  const loop::Op op = GetParam()->op;
  const auto narrow = MathlibKernel::Compile(op, DType::kFloat32), wide = MathlibKernel::Compile(op, DType::kFloat64);
  ASSERT_TRUE(narrow.ok() && wide.ok()) << narrow.status() << wide.status();
  const double floor = mathlib::BudgetOf(op).f32_floor;
  std::vector<float> x(kBlock), got(kBlock);
  std::vector<double> exact(kBlock), want(kBlock);
  double worst = 0;
  float at = 0;
  for (uint64_t first = 0; first >> 32 == 0; first += kBlock) {
    for (size_t i = 0; i < kBlock; ++i) {
      x[i] = std::bit_cast<float>(static_cast<uint32_t>(first + i));
      exact[i] = x[i];
    }
    narrow->Run(x.data(), x.data(), got.data(), kBlock);
    wide->Run(exact.data(), exact.data(), want.data(), kBlock);
    double block_worst = 0;
    for (size_t i = 0; i < kBlock; ++i) {
      const double error = FastError(got[i], want[i], floor);
      block_worst = error > block_worst || error != error ? (error != error ? INFINITY : error) : block_worst;
    }
    if (block_worst <= worst) continue;
    for (size_t i = 0; i < kBlock; ++i) {
      double error = mathlib::UlpError(got[i], want[i], floor);
      if (want[i] == 0 && got[i] == 0 && std::signbit(got[i]) != std::signbit(want[i])) error = INFINITY;
      if (error > worst) worst = error, at = x[i];
    }
  }
  std::printf("    {loop::Op::k%s, %.4f},\n", std::string(loop::Name(op)).c_str(), worst);
  EXPECT_LE(worst, mathlib::BudgetOf(op).f32) << std::hexfloat << at;
}

INSTANTIATE_TEST_SUITE_P(All, Exhaustive, testing::ValuesIn(OfOneOperand()),
                         [](const auto& info) { return std::string(loop::Name(info.param->op)); });

}  // namespace
}  // namespace kiln
