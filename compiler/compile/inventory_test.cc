#include "compiler/compile/inventory.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "compiler/mathlib/budgets/budgets.h"
#include "compiler/mathlib/budgets/measured.h"
#include "compiler/ops/registry.h"

namespace kiln {
namespace {

std::map<std::string, OperatorInfo> ByName() {
  std::map<std::string, OperatorInfo> operators;
  for (OperatorInfo& info : Operators()) {
    const std::string name = info.record.name;
    operators.emplace(name, std::move(info));
  }
  return operators;
}

std::set<std::string> FunctionNames(const OperatorInfo& info) {
  std::set<std::string> names;
  for (const FunctionInfo& function : info.functions) names.insert(function.name);
  return names;
}

TEST(Operators, HasTheBudgetsAndMeasuredErrorsOfTheFunctionsThatAnElementTakes) {
  const std::map<std::string, OperatorInfo> operators = ByName();
  EXPECT_EQ(operators.size(), AllOps().size());
  const OperatorInfo& exp = operators.at("exp");
  ASSERT_EQ(FunctionNames(exp), std::set<std::string>{"exp"});
  EXPECT_EQ(exp.functions[0].f32_budget, mathlib::BudgetOf(loop::Op::kExp).f32);
  EXPECT_EQ(exp.functions[0].f32_measured, mathlib::MeasuredOf(loop::Op::kExp).f32);
  EXPECT_EQ(exp.functions[0].f64_budget, mathlib::BudgetOf(loop::Op::kExp).f64);
  EXPECT_EQ(exp.functions[0].f64_measured, mathlib::MeasuredOf(loop::Op::kExp).f64);
  EXPECT_TRUE(exp.functions[0].exhaustive);
  // approximate='none' takes erf, 'tanh' the other: both are samples.
  EXPECT_EQ(FunctionNames(operators.at("gelu")), (std::set<std::string>{"erf", "tanh"}));
  EXPECT_EQ(FunctionNames(operators.at("add")), std::set<std::string>{});
  EXPECT_EQ(FunctionNames(operators.at("mm")), std::set<std::string>{});
}

TEST(Operators, WhatIsMeasuredIsWithinItsBudget) {
  for (const auto& [name, info] : ByName()) {
    for (const FunctionInfo& function : info.functions) {
      EXPECT_GT(function.f32_measured, 0) << name << " takes " << function.name;
      EXPECT_LE(function.f32_measured, function.f32_budget) << name << " takes " << function.name;
      EXPECT_LE(function.f64_measured, function.f64_budget) << name << " takes " << function.name;
    }
  }
}

TEST(AssembleFor, TheDeviceItselfAndThenWhatItRuns) {
  EXPECT_EQ(AssembleFor("sm_90"), std::vector<std::string>{"sm_90"});
  EXPECT_EQ(AssembleFor("sm_87"), (std::vector<std::string>{"sm_87", "sm_86"}));
  EXPECT_EQ(AssembleFor("sm_100"), std::vector<std::string>{"sm_100"});
  EXPECT_TRUE(AssembleFor("x86-64-v3").empty());
}

}  // namespace
}  // namespace kiln
