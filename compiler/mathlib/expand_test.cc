#include "compiler/mathlib/expand.h"

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/loop/interp.h"
#include "compiler/loop/mutate.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"
#include "compiler/mathlib/evaluate.h"
#include "compiler/mathlib/function.h"
#include "gtest/gtest.h"

namespace kiln::mathlib {
namespace {

using loop::Kernel;

Kernel MustParse(const std::string& text) {
  absl::StatusOr<Kernel> kernel = loop::ParseKernel(text);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return kernel.ok() ? *std::move(kernel) : Kernel{};
}

int CountOps(const Kernel& kernel, auto wanted) {
  int count = 0;
  loop::Walk(kernel.body, [&](const loop::Stmt& stmt) {
    const loop::Let* let = std::get_if<loop::Let>(&stmt.node);
    count += let != nullptr && wanted(let->op);
  });
  return count;
}

bool IsMathlib(loop::Op op) { return FindFunction(op) != nullptr; }

// b1[i] = statements of v0 (and v1), the last of them v9, for i of 8.
std::string Pointwise(const std::string& type, const std::string& statements) {
  return "kernel {\n  buffer b0: " + type + "[8] read\n  buffer b1: " + type + "[8] write\n  parallel i0 in 0..1 {\n" +
         "vector i1 in 0..8 width 8 {\nv0: " + type + " = load b0[i1]\nv1: " + type + " = load b0[7 - i1]\n" +
         statements + "\nstore b1[i1] = v9\n}\n}\n}";
}

TEST(Expand, DefinitionsHaveTheOriginOfTheFunction) {
  Kernel kernel = MustParse(Pointwise("f32", "v3: f32 = mul v0, v1\nv9: f32 = exp v3"));
  uint32_t next = 0;
  loop::Walk(kernel.body, [&](loop::Stmt& stmt) { stmt.origin = next++; });
  ASSERT_TRUE(Expand(kernel).ok());
  std::map<uint32_t, int> statements;
  loop::Walk(std::as_const(kernel.body), [&](const loop::Stmt& stmt) { ++statements[stmt.origin]; });
  EXPECT_GT(statements[5], 8);  // exp: two loops, two loads and the product come before it
  statements.erase(5);
  EXPECT_EQ(statements, (std::map<uint32_t, int>{{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {6, 1}}));
}

template <typename T>
void ExpectExpanded(const Function& function) {
  const std::string type = sizeof(T) == 4 ? "f32" : "f64";
  const bool binary = loop::Arity(function.op) == 2;
  Kernel kernel = MustParse(
      Pointwise(type, "v9: " + type + " = " + std::string(loop::Name(function.op)) + (binary ? " v0, v1" : " v0")));
  ASSERT_TRUE(Expand(kernel).ok());
  ASSERT_TRUE(loop::Verify(kernel).ok()) << loop::Verify(kernel);
  EXPECT_EQ(CountOps(kernel, IsMathlib), 0);
  std::vector<T> x = {0.1f, 0.5f, 1, 2.25f, -3, 10, -0.75f, 7}, y(8), want(8), reversed(x.rbegin(), x.rend());
  const loop::BufferArg args[] = {{x.data(), 8}, {y.data(), 8}};
  ASSERT_TRUE(loop::Interpret(kernel, args, {}).ok());
  Evaluator<T> evaluator(function);
  evaluator.Run(x.data(), reversed.data(), want.data(), 8);
  for (size_t i = 0; i < 8; ++i) EXPECT_TRUE(y[i] == want[i] || (std::isnan(y[i]) && std::isnan(want[i]))) << i;
}

TEST(Expand, InterpreterAndBatchAgree) {
  for (const Function* function : AllFunctions()) {
    ExpectExpanded<float>(*function);
    ExpectExpanded<double>(*function);
  }
}

TEST(Expand, KeepsKernelsWithoutFunctions) {
  Kernel kernel = MustParse(Pointwise("f32", "v9: f32 = add v0, v1"));
  const std::string before = loop::ToText(kernel);
  ASSERT_TRUE(Expand(kernel).ok());
  EXPECT_EQ(loop::ToText(kernel), before);
}

TEST(Expand, SinAndCosShareTheReduction) {
  auto size = [](const std::string& statements) {
    Kernel kernel = MustParse(Pointwise("f32", statements));
    EXPECT_TRUE(Expand(kernel).ok());
    return CountOps(kernel, [](loop::Op op) { return op == loop::Op::kRound; });
  };
  const int one = size("v9: f32 = sin v0");
  EXPECT_GT(one, 0);
  EXPECT_EQ(size("v7: f32 = sin v0\nv8: f32 = cos v0\nv9: f32 = add v7, v8"), one);
}

// Functions in a reduction's body and combine block, results used behind it.
TEST(Expand, ReachesEveryBlock) {
  Kernel kernel = MustParse(R"(kernel {
  buffer b0: f32[8] read
  buffer b1: f32[1] write
  parallel i0 in 0..1 {
    v0: f32 = const 0
    reduce (v1): (f32) over vector i1 in 0..8 width 4 init (v0) {
      v2: f32 = load b0[i1]
      v3: f32 = exp v2
      yield v3
    } combine (v4), (v5) {
      v6: f32 = add v4, v5
      v7: f32 = tanh v6
      yield v7
    }
    v8: f32 = log v1
    store b1[0] = v8
  }
})");
  ASSERT_TRUE(Expand(kernel).ok());
  ASSERT_TRUE(loop::Verify(kernel).ok()) << loop::Verify(kernel);
  EXPECT_EQ(CountOps(kernel, IsMathlib), 0);
  std::vector<float> x(8, -1), y(1);
  const loop::BufferArg args[] = {{x.data(), 8}, {y.data(), 1}};
  ASSERT_TRUE(loop::Interpret(kernel, args, {}).ok());
  const double e = std::exp(-1.0), lane = std::tanh(std::tanh(e) + e), pair = std::tanh(2 * lane);
  EXPECT_NEAR(y[0], std::log(std::tanh(2 * pair)), 1e-6);
}

}  // namespace
}  // namespace kiln::mathlib
