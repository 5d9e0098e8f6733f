#include "compiler/pipeline/graph_check.h"

#include "compiler/graph/text.h"
#include "compiler/ops/registry.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

std::shared_ptr<const Graph> Parse(std::string_view body) {
  auto graph = ParseGraph(
      "graph inference\nsize s0 [2, inf]\n%0 = input f32[s0, 5]\n%1 = input f32[s0, 5]\n" + std::string(body),
      ResolveOp);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *graph;
}

TEST(CheckSameResults, TellsGraphsApart) {
  auto sum = Parse("%2 = add(%0, %1, 1) : f32[s0, 5]\nreturn %2\n");
  auto swapped = Parse("%2 = add(%1, %0, 1) : f32[s0, 5]\nreturn %2\n");
  auto difference = Parse("%2 = sub(%0, %1, 1) : f32[s0, 5]\nreturn %2\n");
  EXPECT_EQ(CheckSameResults(*sum, *swapped), absl::OkStatus());
  EXPECT_EQ(CheckSameResults(*sum, *difference), absl::InternalError("output 0 changes"));
  EXPECT_EQ(CheckSameResults(*sum, *difference, 10), absl::OkStatus());  // too large to tell
}

TEST(CheckSameResults, LooksAtUpdates) {
  auto first = Parse("update 0 %1\nreturn\n");
  auto second = Parse("update 0 %0\nreturn\n");
  EXPECT_EQ(CheckSameResults(*first, *second), absl::InternalError("update 0 changes"));
}

TEST(CheckSameResults, IsSilentAboutExternalCalls) {
  auto a = Parse("%2 = mylib.f.default(%0) : f32[s0, 5]\nreturn %2\n");
  auto b = Parse("%2 = mylib.g.default(%0) : f32[s0, 5]\nreturn %2\n");
  EXPECT_EQ(CheckSameResults(*a, *b), absl::OkStatus());
}

}  // namespace
}  // namespace kiln
