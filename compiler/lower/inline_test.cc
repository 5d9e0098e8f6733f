#include "compiler/lower/inline.h"

#include <gtest/gtest.h>

#include <string>

#include "compiler/graph/text.h"
#include "compiler/ops/registry.h"

namespace kiln {
namespace {

// One letter a node: View, Inlined, Pointwise, Reduction, External.
std::string Kinds(std::string_view body) {
  absl::StatusOr<std::shared_ptr<const Graph>> graph = ParseGraph("graph inference\n" + std::string(body), ResolveOp);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return "";
  const Aliases aliases(**graph);
  std::string kinds;
  for (NodeId n = 0; n < (*graph)->nodes().size(); ++n) {
    switch (aliases.kind(n)) {
      case NodeKind::kExternal:
        kinds += 'E';
        break;
      case NodeKind::kView:
        kinds += 'V';
        break;
      case NodeKind::kPointwise:
        kinds += 'P';
        break;
      case NodeKind::kInlined:
        kinds += 'I';
        break;
      case NodeKind::kReduction:
        kinds += 'R';
        break;
      case NodeKind::kOrdered:
        kinds += 'O';
        break;
    }
  }
  return kinds;
}

TEST(Inline, CreationsOfCreations) {
  EXPECT_EQ(Kinds(R"(%0 = input f32[8]
%1 = full([8], 2, dtype:f32, none, none, none) : f32[8]
%2 = exp(%1) : f32[8]
%3 = add(%0, %2, 1) : f32[8]
return %3
)"),
            "IIP");
}

TEST(Inline, CastWeightThatIsBroadcast) {
  constexpr std::string_view kCast = R"(%0 = input f32[4, 8]
%1 = input bf16[8]
%2 = convert_element_type(%1, dtype:f32) : f32[8]
%3 = mul(%0, %2) : f32[4, 8]
)";
  EXPECT_EQ(Kinds(std::string(kCast) + "return %3\n"), "IP");
  EXPECT_EQ(Kinds(std::string(kCast) + "return %3, %2\n"), "PP");  // it is stored anyway
}

TEST(Inline, WhatIsReadAtItsOwnPositionIsFused) {
  EXPECT_EQ(Kinds(R"(%0 = input f32[8]
%1 = neg(%0) : f32[8]
%2 = mul(%0, %1) : f32[8]
return %2
)"),
            "PP");
}

TEST(Inline, FunctionsOnlyOutsideTheRowsLoop) {
  EXPECT_EQ(Kinds(R"(%0 = input f32[4, 8]
%1 = input f32[8]
%2 = input f32[4, 1]
%3 = exp(%1) : f32[8]
%4 = exp(%2) : f32[4, 1]
%5 = mul(%0, %3) : f32[4, 8]
%6 = mul(%5, %4) : f32[4, 8]
return %6
)"),
            "PIPP");
}

TEST(Inline, ManyReadersOfManyOperandsReadTheResult) {
  EXPECT_EQ(Kinds(R"(%0 = input f32[8, 8]
%1 = input f32[8, 8]
%2 = add(%0, %1, 1) : f32[8, 8]
%3 = t(%2) : f32[8, 8]{1, 8}
%4 = mul(%3, %0) : f32[8, 8]
%5 = sub(%3, %0, 1) : f32[8, 8]
%6 = div(%3, %0) : f32[8, 8]
%7 = add(%3, %1, 1) : f32[8, 8]
return %4, %5, %6, %7
)"),
            "PVPPPP");
}

}  // namespace
}  // namespace kiln
