#include "compiler/graph/verify.h"

#include <string>

#include "compiler/graph/builder.h"
#include "compiler/graph/text.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

TensorType F32(SymContext& syms, int64_t size) {
  return {DType::kFloat32, DeviceType::kCpu, {syms.Const(size)}, {syms.Const(1)}};
}

class VerifyTest : public testing::Test {
 protected:
  std::string Error(const NodeCheck& check = nullptr) {
    auto graph = builder.Build();
    EXPECT_TRUE(graph.ok()) << graph.status();
    absl::Status status = VerifyGraph(**graph, check);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    return std::string(status.message());
  }

  GraphBuilder builder{std::make_shared<SymContext>()};
  TensorType f32 = F32(builder.syms(), 8);
};

TEST_F(VerifyTest, AcceptsAGoodGraph) {
  ValueId x = builder.AddInput(f32);
  ValueId y = builder.AddNode({"f", ""}, nullptr, {{ValueRef{x}}}, {f32, std::nullopt});
  builder.AddUpdate(0, y);
  builder.AddOutput(y);
  auto graph = builder.Build();
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(VerifyGraph(**graph), absl::OkStatus());
}

TEST_F(VerifyTest, SizesMustBeTheGraphsOwn) {
  TensorType type = f32;
  type.sizes[0] = builder.syms().Axis(0, builder.syms().Const(4));
  builder.AddInput(type);
  EXPECT_EQ(Error(), "graph verifier: input 0 mentions i0, which is not over the graph's sizes");
}

TEST_F(VerifyTest, ConstantsMustHaveTheirBytes) {
  builder.AddConstant(f32, "abc");
  EXPECT_EQ(Error(), "graph verifier: constant %0 has 3 bytes");
}

TEST_F(VerifyTest, AnInputIsUpdatedOnce) {
  ValueId x = builder.AddInput(f32);
  builder.AddUpdate(0, x);
  builder.AddUpdate(0, x);
  EXPECT_EQ(Error(), "graph verifier: the update of input 0 is there twice");
}

TEST_F(VerifyTest, JointCountsMustFit) {
  builder.AddInput(f32);
  builder.SetJointCounts(2, 0);
  EXPECT_EQ(Error(), "graph verifier: there are more primals than inputs");
}

TEST_F(VerifyTest, ASizeInputBindsAVariable) {
  builder.AddSymInput(builder.syms().Const(3));
  EXPECT_EQ(Error(), "graph verifier: input 0 binds no size variable");
}

TEST_F(VerifyTest, TheNodeCheckNamesTheNode) {
  builder.AddNode({"f", ""}, nullptr, {}, {});
  EXPECT_EQ(Error([](const Graph&, const Node&) { return absl::InternalError("bad argument"); }),
            "graph verifier: node 0 (f): bad argument");
}

TEST(GraphBuilder, RefusesUsesBeforeDefinitions) {
  GraphBuilder builder(std::make_shared<SymContext>());
  builder.AddNode({"f", ""}, nullptr, {{ArgList{{ValueRef{3}}}}}, {});
  EXPECT_EQ(builder.status().message(), "graph builder: node 0 (f) reads %3, which is not defined before it");
  EXPECT_EQ(builder.Build().status().code(), absl::StatusCode::kInternal);
}

TEST(GraphBuilder, InternsTypesAndOperators) {
  GraphBuilder builder(std::make_shared<SymContext>());
  TensorType f32 = F32(builder.syms(), 8);
  ValueId x = builder.AddInput(f32);
  ValueId y = builder.AddNode({"f", "f() -> Tensor"}, nullptr, {}, {f32});
  builder.AddNode({"f", "f() -> Tensor"}, nullptr, {}, {f32});
  EXPECT_EQ(builder.graph().type(x), builder.graph().type(y));
  EXPECT_EQ(builder.graph().ops().size(), 1u);
  EXPECT_EQ(builder.graph().producer(y), 0u);
  EXPECT_EQ(builder.graph().producer(x), kNoNode);
}

TEST(GraphBuilder, NodesTakeTheContext) {
  GraphBuilder builder(std::make_shared<SymContext>());
  builder.SetContext({Phase::kBackward, 2, 17});
  builder.AddNode({"f", ""}, nullptr, {}, {});
  const Node& node = builder.graph().nodes()[0];
  EXPECT_EQ(node.phase, Phase::kBackward);
  EXPECT_EQ(node.recompute, 2u);
  EXPECT_EQ(node.origin, 17u);
}

}  // namespace
}  // namespace kiln
