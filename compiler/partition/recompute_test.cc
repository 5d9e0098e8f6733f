#include "compiler/partition/recompute.h"

#include "compiler/partition/joint_testing.h"

namespace kiln {
namespace {

// One word a node of the forward.
std::string RulesOf(const Graph& joint) {
  const absl::StatusOr<Roles> roles = FindRoles(joint);
  if (!roles.ok()) return roles.status().ToString();
  const std::vector<Recompute> rules = RecomputeRules(joint, *roles);
  std::string text;
  for (NodeId n = 0; n < rules.size(); ++n) {
    if (!roles->forward[n]) continue;
    static constexpr std::string_view kWords[] = {"free", "fuses", "costs", "asked", "never"};
    absl::StrAppend(&text, text.empty() ? "" : " ", std::string(kWords[static_cast<int>(rules[n])]));
  }
  return text;
}

TEST(RecomputeRules, KindsOfNodes) {
  EXPECT_EQ(RulesOf(*JointOf(2, 1, R"(
    %0 = input f32[8, 8]
    %1 = input f32[8, 8]
    %2 = input f32[8, 8]
    %3 = aten.t.default(%0) : f32[8, 8]{1, 8}
    %4 = aten.full.default([8, 8], 2, dtype:f32, none, none, none) : f32[8, 8]
    %5 = aten.exp.default(%3) : f32[8, 8]{1, 8}
    %6 = aten.mm.default(%5, %1) : f32[8, 8]
    %7 = aten.sum.dim_IntList(%6, [1], true, none) : f32[8, 1]
    %8 = aten._softmax.default(%6, 1, false) : f32[8, 8]
    %9, %10 = aten.native_dropout.default(%8, 0.5, true) : f32[8, 8], bool[8, 8]
    %11 = aten.mul.Tensor(%9, %7) : f32[8, 8]
    %12 = aten.mul.Tensor(%11, %4) : f32[8, 8]
    return %12, %2, none
  )")),
            "free free fuses costs never never never costs fuses");
}

TEST(RecomputeRules, OperatorsWithoutARecordAreNeverRecomputed) {
  EXPECT_EQ(RulesOf(*JointOf(1, 1, R"(
    op my.op.default "my::op(Tensor self) -> Tensor"
    %0 = input f32[8]
    %1 = input f32[8]
    %2 = my.op.default(%0) : f32[8]
    return %2, %1
  )")),
            "never");
}

TEST(RecomputeRules, WhatTheBackwardReadsFromMemoryIsNotFree) {
  EXPECT_EQ(RulesOf(*JointOf(2, 1, R"(
    %0 = input f32[8, 8]
    %1 = input f32[8, 8]
    %2 = input f32[8, 8]
    %3 = aten.exp.default(%0) : f32[8, 8]
    %4 = aten.sin.default(%3) : f32[8, 8]
    %5 = aten.mm.default(%4, %1) : f32[8, 8]
    %6 = aten.t.default(%4) : f32[8, 8]{1, 8} phase=backward
    %7 = aten.mm.default(%6, %2) : f32[8, 8] phase=backward
    return %5, none, %7
  )")),
            "fuses costs costs");
}

TEST(RecomputeRules, AResidualStreamIsNotComputedAgainFromItsBeginning) {
  EXPECT_EQ(RulesOf(*JointOf(2, 1, R"(
    %0 = input f32[8, 8]
    %1 = input f32[8, 8]
    %2 = input f32[8, 8]
    %3 = aten.exp.default(%0) : f32[8, 8]
    %4 = aten.mm.default(%3, %1) : f32[8, 8]
    %5 = aten.add.Tensor(%3, %4, 1) : f32[8, 8]
    %6 = aten.sin.default(%5) : f32[8, 8]
    return %6, %2, none
  )")),
            "fuses costs costs fuses");
}

TEST(RecomputeRules, ALongChainIsCutInPieces) {
  std::string body = "%0 = input f32[8]\n%1 = input f32[8]\n%2 = aten.sin.default(%0) : f32[8]\n";
  for (int v = 3; v < 92; ++v) absl::StrAppend(&body, "%", v, " = aten.sin.default(%", v - 1, ") : f32[8]\n");
  const std::string rules = RulesOf(*JointOf(1, 1, body + "return %91, %1\n"));
  size_t costs = 0;
  for (size_t at = rules.find("costs"); at != std::string::npos; at = rules.find("costs", at + 1)) ++costs;
  EXPECT_EQ(costs, 2u) << rules;
}

TEST(RecomputeRules, TheRequestsTagsAreFollowedButForDraws) {
  EXPECT_EQ(RulesOf(*JointOf(2, 1, R"(
    %0 = input f32[8, 8]
    %1 = input f32[8, 8]
    %2 = input f32[8, 8]
    %3 = aten.exp.default(%0) : f32[8, 8] recompute=1
    %4 = aten.exp.default(%3) : f32[8, 8] recompute=2
    %5 = aten.mm.default(%4, %1) : f32[8, 8] recompute=3
    %6 = aten._softmax.default(%5, 1, false) : f32[8, 8] recompute=4
    %7, %8 = aten.native_dropout.default(%6, 0.5, true) : f32[8, 8], bool[8, 8] recompute=3
    return %7, %2, none
  )")),
            "never costs asked asked never");
}

}  // namespace
}  // namespace kiln
