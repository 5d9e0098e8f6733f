// All 2^32 inputs of every f32 definition with one operand: minutes, so run by hand (bazel test
// //compiler/mathlib:exhaustive_test).
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "compiler/mathlib/budgets/budgets.h"
#include "compiler/mathlib/samples.h"
#include "gtest/gtest.h"

namespace kiln::mathlib {
namespace {

struct Exhaustive : testing::TestWithParam<const Function*> {};
INSTANTIATE_TEST_SUITE_P(All, Exhaustive, testing::ValuesIn(AllFunctions().begin(), AllFunctions().end()),
                         [](const auto& info) { return std::string(loop::Name(info.param->op)); });

TEST_P(Exhaustive, F32) {
  const uint32_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<Worst<float>> worst(threads);
  std::vector<std::thread> running;
  for (uint32_t i = 0; i < threads; ++i) {
    running.emplace_back([&, i] { worst[i] = MeasureF32(*GetParam(), i, threads); });
  }
  for (std::thread& thread : running) thread.join();
  const auto most = std::max_element(worst.begin(), worst.end(), [](auto& a, auto& b) { return a.error < b.error; });
  RecordProperty("ulp", std::to_string(most->error));
  EXPECT_LE(most->error, BudgetOf(GetParam()->op).f32) << most->Describe();
}

}  // namespace
}  // namespace kiln::mathlib
