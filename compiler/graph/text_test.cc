#include "compiler/graph/text.h"

#include <string>
#include <vector>

#include "compiler/graph/builder.h"
#include "compiler/graph/verify.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

const OpDef* NoRecord(OpName&) { return nullptr; }

std::shared_ptr<const Graph> MustParse(std::string_view text, std::shared_ptr<SymContext> syms = nullptr) {
  auto graph = ParseGraph(text, NoRecord, std::move(syms));
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *graph : nullptr;
}

std::string ErrorOf(std::string_view text) {
  auto graph = ParseGraph(text, NoRecord);
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(graph.status().message());
}

// Everything that the form has, as the printer writes it.
constexpr std::string_view kEverything = R"(graph joint primals=3 forward_outputs=2
size s0 [2, inf] class=5
size s1 [-inf, 1024]
op aten.relu.default "aten::relu(Tensor self) -> Tensor"
op aten.relu.default$1 "aten::relu(Tensor self, \"x\") -> Tensor"
op split
op "odd name"
op effect
%0 = input f32[s0, 768]
input s0
%2 = input bf16[s0*2 + s1, 3]{1, s0*2 + s1}@cuda
%3 = constant i64[2] 0100000000000000ffffffffffffffff
%4 = constant f32[] 0000803f
%6 = aten.relu.default(%0) : f32[s0, 768] origin=3
%7 = aten.relu.default$1(%6) : f32[s0, 768] recompute=2 origin=4
%8, %9, %10 = split(%7, [s0*384, 5, %3, none], 1.0, -0.0, 1e-05, inf, nan, nan:fff8000000000001) : f32[s0, 384], none, f32[s0, 384] phase=backward
%11 = "odd name"(none, true, false, "a\"b\n#", dtype:bf16, device:cuda, layout:0, format:channels_last, [], -7, min(s0, 4)) : c64[s0//2, (s0*3) % 7]
effect() :
update 0 %7
update 2 %2
return %8, s0*2, none, %0
)";

TEST(GraphText, PrintAndParseAreInverse) {
  const std::string text(kEverything);
  auto graph = MustParse(text);
  ASSERT_TRUE(graph);
  EXPECT_EQ(PrintGraph(*graph), text);
  auto again = MustParse(text, graph->shared_syms());
  ASSERT_TRUE(again);
  EXPECT_TRUE(SameGraph(*graph, *again));
  absl::Status status = VerifyGraph(*graph);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(GraphText, SaysWhichNodeEachLineWrites) {
  auto graph = MustParse(kEverything);
  ASSERT_TRUE(graph);
  std::vector<NodeId> lines;
  EXPECT_EQ(PrintGraph(*graph, lines), kEverything);
  std::vector<NodeId> wanted(21, kNoNode);
  for (NodeId n = 0; n < 5; ++n) wanted[13 + n] = n;
  EXPECT_EQ(lines, wanted);
}

TEST(GraphText, CommentsBlankLinesAndMissingSchemas) {
  auto graph = MustParse(R"(
    # a comment
    graph inference
    %0 = input f32[8]{1}   # row-major, said aloud

    %1 = "a#b"(%0) : f32[8]
    return %1
  )");
  ASSERT_TRUE(graph);
  EXPECT_EQ(PrintGraph(*graph),
            "graph inference\nop \"a#b\"\n%0 = input f32[8]\n%1 = \"a#b\"(%0) : f32[8]\nreturn %1\n");
}

TEST(GraphText, FloatsKeepTheirBitsAndNeverReadAsIntegers) {
  auto graph = MustParse("graph inference\nf(1.0, 1, 1e300, 0.1, -inf, 5e-324, 100000000000000000000.0) :\nreturn\n");
  ASSERT_TRUE(graph);
  std::span<const Arg> args = graph->nodes()[0].args;
  EXPECT_EQ(std::get<double>(args[0].v), 1.0);
  EXPECT_EQ(std::get<Sym>(args[1].v), graph->syms().Const(1));
  EXPECT_EQ(std::get<double>(args[3].v), 0.1);
  EXPECT_EQ(std::get<double>(args[5].v), 5e-324);
  EXPECT_EQ(std::get<double>(args[6].v), 1e20);
  EXPECT_NE(Arg{0.0}, Arg{-0.0});
}

TEST(GraphText, TheResolverGivesRecordsAndSchemas) {
  int calls = 0;
  auto resolve = [&](OpName& op) -> const OpDef* {
    ++calls;
    if (op.schema.empty()) op.schema = op.name + "(Tensor self) -> Tensor";
    return nullptr;
  };
  auto graph =
      ParseGraph("graph inference\n%0 = input f32[8]\n%1 = f(%0) : f32[8]\n%2 = f(%1) : f32[8]\nreturn %2\n", resolve);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(calls, 1);
  ASSERT_EQ((*graph)->ops().size(), 1u);
  EXPECT_EQ((*graph)->ops()[0].schema, "f(Tensor self) -> Tensor");
}

TEST(GraphText, ErrorsNameLineAndColumn) {
  EXPECT_EQ(ErrorOf("graph fast\n"), "line 1, column 7: expected a level: torch, joint or inference");
  EXPECT_EQ(ErrorOf("graph inference\n%0 = input f33[8]\nreturn\n"), "line 2, column 11: expected a type");
  EXPECT_EQ(ErrorOf("graph inference\n\n%1 = f(%0) : f32[8]\nreturn\n"), "line 3, column 10: %0 is not defined here");
  EXPECT_EQ(ErrorOf("graph inference\n%0 = input f32[s0]\nreturn\n"),
            "line 2, column 16: size expression 's0', offset 2: variable is not declared");
  EXPECT_EQ(ErrorOf("graph inference\nf([[1]]) :\nreturn\n"), "line 2, column 5: lists hold no lists");
  EXPECT_EQ(ErrorOf("graph inference\nreturn\nreturn\n"), "line 3, column 1: 'return' must be the last line");
  EXPECT_EQ(ErrorOf("graph inference\n"), "line 1, column 16: expected 'return'");
}

TEST(GraphText, BadTextIsRefused) {
  for (std::string_view line : {"%0 = input f32[8]{1, 1}",
                                "%0 = input f32[8",
                                "%0 = constant u8[1] 0g",
                                "%0, %2 = f() : none, none",
                                "size s1 [0, 1]",
                                "update 0 %0",
                                "f(\"abc) :",
                                "f(dtype:f31) :",
                                "f(1.0.0) :",
                                "f(,) :",
                                "f() : f32[]",
                                "f(",
                                "%4000000000 = f() : none",
                                "size s0 [0]",
                                "input 5 5",
                                "$",
                                "%",
                                "%0",
                                "update",
                                "f(%99999999999999) :",
                                "f() : origin=-1",
                                "f(\"\\",
                                "op",
                                "\"\"() :"}) {
    ErrorOf("graph inference\n" + std::string(line) + "\nreturn\n");
  }
  ErrorOf("");
  ErrorOf("return");
}

}  // namespace
}  // namespace kiln
