#include "compiler/passes/share_equal.h"

#include "compiler/passes/pass_testing.h"

namespace kiln {
namespace {

TEST(ShareEqualNodes, ComputesEqualNodesOnceAndKeepsIds) {
  EXPECT_EQ(BodyOf(ShareEqualNodes(GraphOf(R"(
    %0 = input f32[s0]
    %1 = aten.relu.default(%0) : f32[s0]
    %2 = aten.relu.default(%0) : f32[s0]
    %3 = aten.exp.default(%2) : f32[s0]
    %4 = aten.mul.Tensor(%1, %3) : f32[s0]
    return %4
  )"))),
            "%0 = input f32[s0]\n%1 = aten.relu.default(%0) : f32[s0]\n%3 = aten.exp.default(%1) : f32[s0]\n"
            "%4 = aten.mul.Tensor(%1, %3) : f32[s0]\nreturn %4\n");
}

TEST(ShareEqualNodes, KeepsOutputsApartAndDrawsAndOtherTypes) {
  auto graph = GraphOf(R"(
    %0 = input f32[s0]
    %1 = aten.relu.default(%0) : f32[s0]
    %2 = aten.relu.default(%0) : f32[s0]
    %3, %4 = aten.native_dropout.default(%0, 0.5, true) : f32[s0], bool[s0]
    %5, %6 = aten.native_dropout.default(%0, 0.5, true) : f32[s0], bool[s0]
    return %1, %2, %3, %5
  )");
  EXPECT_EQ(ShareEqualNodes(graph)->get(), graph.get());
}

}  // namespace
}  // namespace kiln
