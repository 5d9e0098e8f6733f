#include "compiler/passes/decompose.h"

#include "compiler/graph/builder.h"
#include "compiler/ops/op_builder.h"
#include "compiler/passes/pass_testing.h"

namespace kiln {
namespace {

absl::StatusOr<TypeList> Same(const Call& call) { return TypeList{call.type(0)}; }

// Records of the test's own: twice(x) = x + x, four(x) = twice(twice(x)), turn(x) = the transpose of exp(x).
const OpDef kTwice = {.schema = "twice(Tensor self) -> Tensor",
                      .promote = Promote::kNone,
                      .shape = Same,
                      .decompose = [](GraphBuilder& graph, const Call& c) -> Values {
                        OpBuilder b(graph);
                        return {b.add(c.value(0), c.value(0))};
                      }};
const OpDef kFour = {.schema = "four(Tensor self) -> Tensor",
                     .promote = Promote::kNone,
                     .shape = Same,
                     .decompose = [](GraphBuilder& graph, const Call& c) -> Values {
                       const TensorType type = c.type(0);
                       ValueId once = graph.AddNode({"twice", ""}, &kTwice, {{ValueRef{c.value(0)}}}, {type});
                       return {graph.AddNode({"twice", ""}, &kTwice, {{ValueRef{once}}}, {type})};
                     }};
const OpDef kTurn = {.schema = "turn(Tensor self) -> Tensor",
                     .promote = Promote::kNone,
                     .shape = Same,
                     .decompose = [](GraphBuilder& graph, const Call& c) -> Values {
                       OpBuilder b(graph);
                       return {b.t(b.exp(c.value(0)))};
                     }};
extern const OpDef kEndless;
const OpDef kEndless = {.schema = "endless(Tensor self) -> Tensor",
                        .promote = Promote::kNone,
                        .shape = Same,
                        .decompose = [](GraphBuilder& graph, const Call& c) -> Values {
                          return {graph.AddNode({"endless", ""}, &kEndless, {{ValueRef{c.value(0)}}}, {c.type(0)})};
                        }};

absl::StatusOr<std::shared_ptr<const Graph>> Decomposed(std::string_view text) {
  auto resolve = [](OpName& op) -> const OpDef* {
    for (const OpDef* def : {&kTwice, &kFour, &kTurn, &kEndless}) {
      if (def->name() == op.name) return def;
    }
    return ResolveOp(op);
  };
  auto graph = ParseGraph("graph inference\nsize s0 [2, inf]\n" + std::string(text), resolve);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return Decompose(*graph);
}

TEST(Decompose, DownToTheLastPart) {
  EXPECT_EQ(BodyOf(Decomposed("%0 = input f32[s0]\n%1 = four(%0) : f32[s0] recompute=2 origin=5\nreturn %1\n")),
            "%0 = input f32[s0]\n%1 = add(%0, %0, 1) : f32[s0] recompute=2 origin=5\n"
            "%2 = add(%1, %1, 1) : f32[s0] recompute=2 origin=5\nreturn %2\n");
}

TEST(Decompose, ThePartsTakeTheResultsStrides) {
  EXPECT_EQ(BodyOf(Decomposed("%0 = input f32[4, 8]\n%1 = twice(%0) : f32[4, 8]{1, 4}\nreturn %1\n")),
            "%0 = input f32[4, 8]\n%1 = add(%0, %0, 1) : f32[4, 8]{1, 4}\nreturn %1\n");
  // A view's strides are its base's business: it is copied.
  EXPECT_EQ(BodyOf(Decomposed("%0 = input f32[8, 8]\n%1 = turn(%0) : f32[8, 8]\nreturn %1\n")),
            "%0 = input f32[8, 8]\n%1 = exp(%0) : f32[8, 8]\n%2 = t(%1) : f32[8, 8]{1, 8}\n"
            "%3 = clone(%2, none) : f32[8, 8]\nreturn %3\n");
}

TEST(Decompose, KeepsThePointerWithoutComposites) {
  auto graph = GraphOf("%0 = input f32[s0]\n%1 = aten.relu.default(%0) : f32[s0]\nreturn %1\n");
  EXPECT_EQ(Decompose(graph)->get(), graph.get());
}

// What a relu's gradient needs of it is one bit an element.
TEST(NarrowOperands, OfTheBackwardAlone) {
  const auto narrowed = [](const std::string& phase, const std::string& type) {
    return BodyOf(
        NarrowOperands(GraphOf("%0 = input f32[4]\n%1 = input " + type +
                               "\n%2 = threshold_backward(%0, %1, 0) : f32[4]" + phase + " origin=3\nreturn %2\n")));
  };
  EXPECT_EQ(narrowed(" phase=backward", "f32[4]"),
            "%0 = input f32[4]\n%1 = input f32[4]\n%2 = le(%1, 0.0) : bool[4] phase=backward origin=3\n"
            "%3 = where(%2, 0.0, %0) : f32[4] phase=backward origin=3\nreturn %3\n");
  EXPECT_EQ(narrowed("", "f32[4]").find("where"), std::string::npos);
  // Its layout is not the result's.
  EXPECT_EQ(narrowed(" phase=backward", "f32[1]").find("where"), std::string::npos);
}

TEST(Decompose, EndlessDecompositionIsABug) {
  EXPECT_EQ(Decomposed("%0 = input f32[s0]\n%1 = endless(%0) : f32[s0]\nreturn %1\n").status(),
            absl::InternalError("decompositions nest deeper than 16"));
}

}  // namespace
}  // namespace kiln
