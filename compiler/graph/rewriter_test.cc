#include "compiler/graph/rewriter.h"

#include <string>

#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

std::shared_ptr<const Graph> Parse(std::string_view text) {
  auto graph = ParseGraph(text, [](OpName&) -> const OpDef* { return nullptr; });
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *graph;
}

using Replacement = absl::StatusOr<std::optional<std::vector<ValueId>>>;

constexpr std::string_view kChain = R"(graph inference
size s0 [2, inf]
%0 = input f32[s0]
input s0
%3 = alias(%0) : f32[s0]
%4 = twice(%3) : f32[s0] origin=7
%5, %6 = pair([%4, %3]) : f32[s0], none
update 0 %5
return %4, s0
)";

TEST(RewriteGraph, KeepsThePointerWhenNothingChanges) {
  auto graph = Parse(kChain);
  auto same = RewriteGraph(graph, [](GraphBuilder&, const Node&) -> Replacement { return std::nullopt; });
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->get(), graph.get());
}

TEST(RewriteGraph, ReplacesAndRenumbers) {
  auto graph = Parse(kChain);
  auto out = RewriteGraph(graph, [](GraphBuilder& b, const Node& node) -> Replacement {
    const std::string& name = b.graph().op_name(node).name;
    if (name == "alias") return std::vector<ValueId>{std::get<ValueRef>(node.args[0].v).id};
    if (name != "twice") return std::nullopt;
    TensorType type = *b.graph().type(node.first_result);
    return std::vector<ValueId>{b.AddNode({"add", ""}, nullptr, {node.args[0], node.args[0]}, {type})};
  });
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_TRUE(VerifyGraph(**out).ok());
  EXPECT_EQ(PrintGraph(**out), R"(graph inference
size s0 [2, inf]
op add
op pair
%0 = input f32[s0]
input s0
%2 = add(%0, %0) : f32[s0] origin=7
%3, %4 = pair([%2, %0]) : f32[s0], none
update 0 %3
return %2, s0
)");
}

TEST(RewriteGraph, AReplacementHasTheSameType) {
  auto graph = Parse("graph inference\n%0 = input f32[8]\n%1 = input f32[8]{2}\n%2 = a(%0) : f32[8]\nreturn %2\n");
  auto with = [&](ValueId v) {
    return RewriteGraph(graph, [v](GraphBuilder&, const Node&) -> Replacement { return std::vector<ValueId>{v}; })
        .status();
  };
  EXPECT_TRUE(with(0).ok());
  EXPECT_EQ(with(1).message(), "rewrite of a: result 0 changes an output's strides");
  EXPECT_EQ(with(9).message(), "rewrite of a: result 0 is not defined");
}

TEST(KeepNodes, DropsNodes) {
  auto graph = Parse("graph inference\n%0 = input f32[8]\n%1 = a(%0) : f32[8]\n%2 = b(%0) : f32[8]\nreturn %2\n");
  auto out = KeepNodes(graph, {false, true});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(PrintGraph(**out), "graph inference\nop b\n%0 = input f32[8]\n%1 = b(%0) : f32[8]\nreturn %1\n");
  EXPECT_EQ(KeepNodes(graph, {true, true})->get(), graph.get());
  EXPECT_EQ(KeepNodes(graph, {true, false}).status().code(), absl::StatusCode::kInternal);  // still read
}

}  // namespace
}  // namespace kiln
