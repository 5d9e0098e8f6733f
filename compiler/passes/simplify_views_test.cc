#include "compiler/passes/simplify_views.h"

#include "compiler/passes/pass_testing.h"

namespace kiln {
namespace {

// The operand of the last node.
ValueId ReadBy(const absl::StatusOr<std::shared_ptr<const Graph>>& graph) {
  EXPECT_TRUE(graph.ok()) << graph.status();
  return std::get<ValueRef>((*graph)->nodes().back().args[0].v).id;
}

TEST(SimplifyViews, ChainsThatEndWhereTheyBegan) {
  EXPECT_EQ(ReadBy(SimplifyViews(GraphOf(R"(
    %0 = input f32[s0, 12, 64]
    %1 = aten.transpose.int(%0, 0, 1) : f32[12, s0, 64]{64, 768, 1}
    %2 = aten.transpose.int(%1, 0, 1) : f32[s0, 12, 64]
    %3 = aten.view.default(%2, [s0, 768]) : f32[s0, 768]
    %4 = aten.view.default(%3, [s0, 12, 64]) : f32[s0, 12, 64]
    %5 = aten.unsqueeze.default(%4, 1) : f32[s0, 1, 12, 64]{768, 768, 64, 1}
    %6 = aten.squeeze.dim(%5, 1) : f32[s0, 12, 64]
    %7 = aten.exp.default(%6) : f32[s0, 12, 64]
    return %7
  )"))),
            0u);
}

TEST(SimplifyViews, AnotherOrderOfTheSameSizesStays) {
  auto graph = GraphOf(R"(
    %0 = input f32[8, 8]
    %1 = aten.t.default(%0) : f32[8, 8]{1, 8}
    %2 = aten.exp.default(%1) : f32[8, 8]{1, 8}
    return %2
  )");
  EXPECT_EQ(SimplifyViews(graph)->get(), graph.get());
}

TEST(SimplifyViews, ASliceOfTheWholeIsTheWhole) {
  EXPECT_EQ(ReadBy(SimplifyViews(GraphOf(R"(
    %0 = input f32[s0, 8]
    %1 = aten.slice.Tensor(%0, 1, 0, 9223372036854775807, 1) : f32[s0, 8]
    %2 = aten.exp.default(%1) : f32[s0, 8]
    return %2
  )"))),
            0u);
}

TEST(SimplifyViews, OutputsStay) {
  auto graph = GraphOf("%0 = input f32[s0]\n%1 = aten.alias.default(%0) : f32[s0]\nreturn %1, %0\n");
  EXPECT_EQ(SimplifyViews(graph)->get(), graph.get());
}

}  // namespace
}  // namespace kiln
