#include "compiler/pipeline/graph_passes.h"

#include "compiler/graph/text.h"
#include "compiler/ops/registry.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

std::shared_ptr<const Graph> Parse(std::string_view text) {
  auto graph = ParseGraph(text, ResolveOp);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *graph;
}

std::string Optimized(std::shared_ptr<const Graph> graph) {
  PassContext context;
  context.debug.verify = true;
  auto out = RunGraphPasses(std::move(graph), context);
  EXPECT_TRUE(out.ok()) << out.status();
  std::string text = PrintGraph(**out);
  return text.substr(text.find("%0"));
}

TEST(GraphPasses, LeaveOnlyWhatIsNeeded) {
  EXPECT_EQ(Optimized(Parse(R"(graph inference
    size s0 [2, inf]
    %0 = input f32[s0, 8]
    %1 = aten.alias.default(%0) : f32[s0, 8]
    %2 = aten.clone.default(%1, none) : f32[s0, 8]
    %3 = aten.t.default(%2) : f32[8, s0]{1, 8}
    %4 = aten.t.default(%3) : f32[s0, 8]
    %5 = aten.relu.default(%4) : f32[s0, 8]
    %6 = aten.exp.default(%4) : f32[s0, 8]
    return %5
  )")),
            "%0 = input f32[s0, 8]\n%1 = aten.relu.default(%0) : f32[s0, 8]\nreturn %1\n");
}

TEST(GraphPasses, ChangeNothingOfASimpleGraph) {
  auto graph = Parse("graph inference\n%0 = input f32[8]\n%1 = aten.relu.default(%0) : f32[8]\nreturn %1\n");
  auto out = RunGraphPasses(graph, {});
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->get(), graph.get());
}

TEST(GraphPasses, TheCheckRefusesBadShapes) {
  auto graph = Parse("graph inference\n%0 = input f32[8]\n%1 = aten.relu.default(%0) : f32[9]\nreturn %1\n");
  EXPECT_EQ(GraphIr().Verify(graph).code(), absl::StatusCode::kInternal);
}

TEST(GraphPasses, StopWhenCancelled) {
  auto graph = Parse("graph inference\nreturn\n");
  PassContext context;
  context.cancelled = [] { return true; };
  EXPECT_EQ(RunGraphPasses(graph, context).status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace kiln
