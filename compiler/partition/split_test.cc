#include "compiler/partition/split.h"

#include <algorithm>
#include <cstring>

#include "compiler/graph/interp.h"
#include "compiler/ops/eval.h"
#include "compiler/partition/choose_saved.h"
#include "compiler/partition/random_joint_testing.h"

namespace kiln {
namespace {

// The text from the first value on.
std::string BodyOf(const Graph& graph) {
  EXPECT_TRUE(VerifyGraph(graph).ok()) << VerifyGraph(graph);
  const std::string text = PrintGraph(graph);
  return text.substr(std::min(text.find("\n%"), text.find("\ninput")) + 1);
}

TEST(SplitJoint, InputsAndOutputsStandInTheJointGraphsOrder) {
  const std::shared_ptr<const Graph> joint = JointOf(2, 1, R"(
    input s0
    %1 = input f32[s0, 4]
    %2 = input f32[s0, 4]
    %3 = aten.exp.default(%1) : f32[s0, 4]
    %4 = aten.sin.default(%3) : f32[s0, 4]
    %5 = aten.mul.Tensor(%2, %4) : f32[s0, 4] phase=backward
    %6 = aten.mul.Tensor(%5, %3) : f32[s0, 4] phase=backward
    return %4, none, %6
  )");
  const absl::StatusOr<Split> split = SplitJoint(*joint, std::vector<ValueId>{1, 3});
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->saved.values, std::vector<ValueId>{3});  // %1 is not needed then
  EXPECT_EQ(BodyOf(*split->forward), R"(input s0
%1 = input f32[s0, 4]
%2 = aten.exp.default(%1) : f32[s0, 4]
%3 = aten.sin.default(%2) : f32[s0, 4]
return %3, %2, s0
)");
  EXPECT_EQ(BodyOf(*split->backward), R"(input s0
%1 = input f32[s0, 4]
%2 = input f32[s0, 4]
%3 = aten.sin.default(%1) : f32[s0, 4]
%4 = aten.mul.Tensor(%2, %3) : f32[s0, 4] phase=backward
%5 = aten.mul.Tensor(%4, %1) : f32[s0, 4] phase=backward
return none, %5
)");
}

TEST(SplitJoint, WhatIsSavedOfTheGradientsOwnIsComputedByTheForward) {
  const std::shared_ptr<const Graph> joint = JointOf(1, 1, R"(
    %0 = input f32[4]
    %1 = input f32[4]
    %2 = aten.sin.default(%0) : f32[4]
    %3 = aten.cos.default(%0) : f32[4] phase=backward
    %4 = aten.mul.Tensor(%1, %3) : f32[4] phase=backward
    return %2, %4
  )");
  const absl::StatusOr<Split> split = SplitJoint(*joint, std::vector<ValueId>{3});
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->forward->nodes().size(), 2u);
  EXPECT_EQ(split->backward->nodes().size(), 1u);
}

TEST(SplitJoint, AMissingPrimalIsOurBug) {
  const std::shared_ptr<const Graph> joint = JointOf(1, 1, R"(
    %0 = input f32[4]
    %1 = input f32[4]
    %2 = aten.sin.default(%0) : f32[4]
    %3 = aten.mul.Tensor(%1, %0) : f32[4]
    return %2, %3
  )");
  EXPECT_EQ(SplitJoint(*joint, {}).status().ToString(), "INTERNAL: the backward reads value 0, which is not saved");
}

// Records, and products of 4×4 matrices.
absl::StatusOr<std::vector<HostValue>> Eval(const NodeRun& run) {
  if (run.graph().op_name(run.node()).name != "aten.mm.default") return EvalRecord(run);
  float a[4][4], b[4][4], c[4][4] = {};
  std::memcpy(a, run.value(std::get<ValueRef>(run.node().args[0].v).id).data.data(), sizeof a);
  std::memcpy(b, run.value(std::get<ValueRef>(run.node().args[1].v).id).data.data(), sizeof b);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      for (int k = 0; k < 4; ++k) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return std::vector<HostValue>{
      HostArray{DType::kFloat32, {4, 4}, std::string(reinterpret_cast<const char*>(c), sizeof c)}};
}

HostArray Drawn(std::mt19937& random, std::vector<int64_t> sizes) {
  HostArray array{DType::kFloat32, sizes, {}};
  for (int64_t i = 0; i < sizes[0] * sizes[1]; ++i) {
    const float x = static_cast<float>(random() % 1000) / 500 - 1;
    array.data.append(reinterpret_cast<const char*>(&x), sizeof x);
  }
  return array;
}

TEST(SplitJoint, ForwardThenBackwardIsTheJointGraphBitForBit) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const std::shared_ptr<const Graph> joint = RandomJoint(seed).Make(20, 8);
    const std::vector<HostValue> primals = {Drawn(random, {4, 4}), Drawn(random, {4, 1}), Drawn(random, {1, 4})};
    const HostValue tangent = Drawn(random, {4, 4});
    std::vector<HostValue> inputs = primals;
    inputs.push_back(tangent);
    const absl::StatusOr<GraphResult> expected = Interpret(*joint, inputs, Eval);
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (const double budget : {0.0, 0.5, 1.0}) {
      const absl::StatusOr<std::vector<ValueId>> saved = ChooseSaved(*joint, {budget, {}});
      ASSERT_TRUE(saved.ok()) << saved.status();
      const absl::StatusOr<Split> split = SplitJoint(*joint, *saved);
      ASSERT_TRUE(split.ok()) << split.status();
      EXPECT_EQ(split->saved.values, *saved);
      absl::StatusOr<GraphResult> forward = Interpret(*split->forward, primals, Eval);
      ASSERT_TRUE(forward.ok()) << forward.status();
      EXPECT_EQ(forward->outputs[0], expected->outputs[0]);
      std::vector<HostValue> handed(forward->outputs.begin() + 1, forward->outputs.end());
      handed.push_back(tangent);
      const absl::StatusOr<GraphResult> backward = Interpret(*split->backward, handed, Eval);
      ASSERT_TRUE(backward.ok()) << backward.status();
      EXPECT_EQ(backward->outputs[0], expected->outputs[1]) << "seed " << seed << ", budget " << budget;
    }
  }
}

}  // namespace
}  // namespace kiln
