#include "compiler/partition/choose_saved.h"

#include <functional>

#include "compiler/partition/estimate.h"
#include "compiler/partition/random_joint_testing.h"
#include "compiler/partition/recompute.h"
#include "compiler/partition/roles.h"

namespace kiln {
namespace {

int64_t BytesOf(const Graph& joint, const PartitionOptions& options) {
  const absl::StatusOr<std::vector<ValueId>> saved = ChooseSaved(joint, options);
  EXPECT_TRUE(saved.ok()) << saved.status();
  SizeEstimate sizes(joint);
  int64_t bytes = 0;
  for (const ValueId v : *saved) bytes += sizes.Bytes(v);
  return bytes;
}

TEST(ChooseSaved, SavesTheSmallerOfTwoThatServe) {
  EXPECT_EQ(Names(ChooseSaved(*JointOf(1, 1, R"(
    %0 = input f32[64]
    %1 = input f32[64]
    %2 = aten.relu.default(%0) : f32[64]
    %3 = aten.le.Scalar(%2, 0) : bool[64] phase=backward
    %4 = aten.where.self(%3, %0, %1) : f32[64] phase=backward
    %5 = aten.where.self(%3, %1, %1) : f32[64] phase=backward
    return %2, %5
  )"))),
            "%3");
}

// An outer product, or its two factors: 4n² or 8n bytes.
std::string Outer(const std::string& n) {
  const std::string whole = " : f32[" + n + ", " + n + "]\n";
  return "%0 = input f32[" + n + ", 1]\n%1 = input f32[1, " + n + "]\n%2 = input f32[" + n + ", " + n +
         "]\n%3 = aten.mul.Tensor(%0, %1)" + whole + "%4 = aten.exp.default(%3)" + whole +
         "%5 = aten.mul.Tensor(%2, %4)" + whole + "return %4, %5, none\n";
}

TEST(ChooseSaved, RaisingASizeMovesTheCut) {
  EXPECT_EQ(Names(ChooseSaved(*JointOf(2, 1, Outer("2")))), "%4");  // of equal cuts the one that computes least again
  EXPECT_EQ(Names(ChooseSaved(*JointOf(2, 1, Outer("3")))), "%0 %1");
  EXPECT_EQ(Names(ChooseSaved(*JointOf(2, 1, Outer("s0")))), "%0 %1");
}

TEST(ChooseSaved, ParametersCostNothing) {
  const std::shared_ptr<const Graph> joint = JointOf(1, 1, R"(
    %0 = input f32[8, 8]
    %1 = input f32[8]
    %2 = aten.select.int(%0, 0, 3) : f32[8]{1}
    %3 = aten.exp.default(%2) : f32[8]
    %4 = aten.mul.Tensor(%1, %3) : f32[8]
    return %3, %4
  )");
  EXPECT_EQ(Names(ChooseSaved(*joint)), "%3");
  EXPECT_EQ(Names(ChooseSaved(*joint, {1.0, {true}})), "%0");
}

TEST(ChooseSaved, NeitherViewsNorCreationsNorConstantsAreSaved) {
  EXPECT_EQ(Names(ChooseSaved(*JointOf(2, 1, R"(
    %0 = input f32[8, 8]
    %1 = input f32[8, 8]
    %2 = input f32[8, 8]
    %3 = constant f32[1] 0000803f
    %4 = aten.mm.default(%0, %1) : f32[8, 8]
    %5 = aten.t.default(%4) : f32[8, 8]{1, 8}
    %6 = aten.full.default([8, 8], 2, dtype:f32, none, none, none) : f32[8, 8]
    %7 = aten.mul.Tensor(%5, %6) : f32[8, 8]
    %8 = aten.mul.Tensor(%2, %5) : f32[8, 8] phase=backward
    %9 = aten.mul.Tensor(%8, %6) : f32[8, 8] phase=backward
    %10 = aten.mul.Tensor(%9, %3) : f32[8, 8] phase=backward
    return %7, %10, none
  )"))),
            "%4");
}

TEST(ChooseSaved, NothingThatNoGradientNeeds) {
  EXPECT_EQ(Names(ChooseSaved(*JointOf(1, 1, R"(
    %0 = input f32[8]
    %1 = input f32[8]
    %2 = aten.exp.default(%0) : f32[8]
    %3 = aten.mul.Tensor(%1, %2) : f32[8] phase=backward
    return %2, %1
  )"))),
            "");
}

TEST(ChooseSaved, ProductsAreRecomputedForABudgetAndDrawsNever) {
  const std::shared_ptr<const Graph> joint = JointOf(2, 1, R"(
    %0 = input f32[8, 8]
    %1 = input f32[8, 8]
    %2 = input f32[8, 8]
    %3, %4 = aten.native_dropout.default(%0, 0.5, true) : f32[8, 8], bool[8, 8]
    %5 = aten.mm.default(%3, %1) : f32[8, 8]
    %6 = aten.exp.default(%5) : f32[8, 8]
    %7 = aten.mul.Tensor(%2, %6) : f32[8, 8] phase=backward
    %8 = aten.mul.Tensor(%7, %5) : f32[8, 8] phase=backward
    %9 = aten.mul.Tensor(%8, %4) : f32[8, 8] phase=backward
    %10 = aten.mul.Tensor(%9, %3) : f32[8, 8] phase=backward
    %11 = aten.mul.Tensor(%10, %1) : f32[8, 8] phase=backward
    return %6, %11, none
  )");
  EXPECT_EQ(Names(ChooseSaved(*joint)), "%1 %3 %4 %5");
  EXPECT_EQ(Names(ChooseSaved(*joint, {0.0, {}})), "%1 %3 %4");
}

TEST(ChooseSaved, TaggedNodesAreComputedAgain) {
  EXPECT_EQ(Names(ChooseSaved(*JointOf(2, 1, R"(
    %0 = input f32[8, 8]
    %1 = input f32[8, 8]
    %2 = input f32[8, 8]
    %3 = aten.mm.default(%0, %1) : f32[8, 8] recompute=3
    %4 = aten._softmax.default(%3, 1, false) : f32[8, 8] recompute=3
    %5 = aten.mm.default(%4, %1) : f32[8, 8]
    %6 = aten.mul.Tensor(%2, %4) : f32[8, 8] phase=backward
    return %5, %6, none
  )"))),
            "%0 %1");
}

TEST(ChooseSaved, TheOldValueOfAWrittenInputIsNotSaved) {
  EXPECT_EQ(Names(ChooseSaved(*JointOf(1, 1, R"(
    %0 = input f32[8]
    %1 = input f32[8]
    %2 = aten.exp.default(%0) : f32[8]
    %3 = aten.sin.default(%2) : f32[8]
    %4 = aten.mul.Tensor(%1, %2) : f32[8] phase=backward
    update 0 %3
    return %3, %4
  )"))),
            "%2");
  EXPECT_EQ(Names(ChooseSaved(*JointOf(1, 1, R"(
    %0 = input f32[8]
    %1 = input f32[8]
    %2 = aten.exp.default(%0) : f32[8]
    %3 = aten.mul.Tensor(%1, %0) : f32[8] phase=backward
    update 0 %2
    return %2, %3
  )"))),
            "UNIMPLEMENTED: input 0 is written in place and its old value is needed by the backward");
}

// Whether the backward can be computed from the values of `saved`.
bool Serves(const Graph& joint, const Roles& roles, std::span<const Recompute> rules, const std::vector<bool>& saved) {
  const std::function<bool(ValueId)> available = [&](ValueId v) {
    const NodeId p = joint.producer(v);
    if (saved[v]) return true;
    if (p == kNoNode) return !Primals(joint)[v];
    if (!roles.backward[p] && (rules[p] == Recompute::kCosts || rules[p] == Recompute::kNever)) return false;
    bool all = true;
    ForEachValue(joint.nodes()[p].args, [&](ValueId operand) { all = all && available(operand); });
    return all;
  };
  return available(joint.outputs()[1].value);
}

TEST(ChooseSaved, NoSetOfFewerBytesServes) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    const std::shared_ptr<const Graph> joint = RandomJoint(seed).Make(6, 3);
    const absl::StatusOr<Roles> roles = FindRoles(*joint);
    ASSERT_TRUE(roles.ok());
    const std::vector<Recompute> rules = RecomputeRules(*joint, *roles);
    std::vector<ValueId> candidates;
    for (ValueId v = 0; v < joint->num_values(); ++v) {
      const NodeId p = joint->producer(v);
      if (p == kNoNode ? Primals(*joint)[v] : !roles->backward[p]) candidates.push_back(v);
    }
    SizeEstimate sizes(*joint);
    int64_t fewest = INT64_MAX;
    for (uint32_t set = 0; set < 1u << candidates.size(); ++set) {
      std::vector<bool> saved(joint->num_values());
      int64_t bytes = 0;
      for (size_t i = 0; i < candidates.size(); ++i) {
        saved[candidates[i]] = set >> i & 1;
        bytes += set >> i & 1 ? sizes.Bytes(candidates[i]) : 0;
      }
      if (bytes < fewest && Serves(*joint, *roles, rules, saved)) fewest = bytes;
    }
    EXPECT_EQ(BytesOf(*joint, {}), fewest) << PrintGraph(*joint);
  }
}

TEST(ChooseSaved, ALargerBudgetNeverKeepsLess) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const std::shared_ptr<const Graph> joint = RandomJoint(seed).Make(40, 15);
    const int64_t least = BytesOf(*joint, {0.0, {}}), most = BytesOf(*joint, {1.0, {}});
    int64_t before = least;
    for (int percent = 0; percent <= 100; percent += 5) {
      const int64_t bytes = BytesOf(*joint, {percent / 100.0, {}});
      EXPECT_GE(bytes, before) << seed << " " << percent;
      EXPECT_LE(static_cast<double>(bytes),
                static_cast<double>(least) + percent / 100.0 * static_cast<double>(most - least));
      before = bytes;
    }
    EXPECT_EQ(before, most) << seed;
  }
}

TEST(SizeEstimate, VariablesCountAsTheMiddleOfTheirClass) {
  const std::shared_ptr<const Graph> joint = JointOf(3, 1, R"(
    %0 = input f32[s0]
    %1 = input bf16[s1, 2]
    %2 = input bool[s1, 0]
    return %0
  )");
  SizeEstimate sizes(*joint);
  EXPECT_EQ(sizes.Bytes(0), 256 * 4);
  EXPECT_EQ(sizes.Bytes(1), 24 * 2 * 2);
  EXPECT_EQ(sizes.Bytes(2), 0);
}

}  // namespace
}  // namespace kiln
