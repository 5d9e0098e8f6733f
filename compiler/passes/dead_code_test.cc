#include "compiler/passes/dead_code.h"

#include "compiler/passes/pass_testing.h"

namespace kiln {
namespace {

TEST(EliminateDeadCode, DropsUnusedChains) {
  EXPECT_EQ(
      BodyOf(EliminateDeadCode(GraphOf(R"(
    %0 = input f32[s0]
    %1 = aten.relu.default(%0) : f32[s0]
    %2 = aten.exp.default(%1) : f32[s0]
    %3 = aten.relu.default(%1) : f32[s0]
    return %3
  )"))),
      "%0 = input f32[s0]\n%1 = aten.relu.default(%0) : f32[s0]\n%2 = aten.relu.default(%1) : f32[s0]\nreturn %2\n");
}

TEST(EliminateDeadCode, KeepsUpdatesDrawsAndUnknownOperators) {
  auto graph = GraphOf(R"(
    %0 = input f32[s0]
    %1 = aten.relu.default(%0) : f32[s0]
    %2, %3 = aten.native_dropout.default(%0, 0.5, true) : f32[s0], bool[s0]
    mylib.log.default(%0) :
    update 0 %1
    return
  )");
  ASSERT_TRUE(graph->nodes()[1].def);
  EXPECT_EQ(EliminateDeadCode(graph)->get(), graph.get());
}

}  // namespace
}  // namespace kiln
