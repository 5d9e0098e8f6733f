#include "compiler/ops/shape_rules.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/graph/text.h"
#include "compiler/ops/registry.h"
#include "compiler/ops/view_rules.h"

namespace kiln {
namespace {

// The type that the shape rule gives the node `text` over the inputs.
std::string Inferred(const std::string& inputs, const std::string& node) {
  const auto graph = ParseGraph(absl::StrCat("graph inference\n", inputs, node, "\nreturn none"), ResolveOp);
  if (!graph.ok()) return graph.status().ToString();
  const absl::StatusOr<TypeList> types = InferTypes(Call(**graph, (*graph)->nodes()[0]));
  if (!types.ok()) return std::string(types.status().message());
  std::string text;
  for (const TensorType& type : *types)
    absl::StrAppend(&text, text.empty() ? "" : " ", PrintType((*graph)->syms(), type));
  return text;
}

constexpr char kSizes[] = "size s0 [2, 1000]\nsize s1 [2, 1000]\n";

TEST(ElementwiseShape, BroadcastsAndKeepsTheLayout) {
  EXPECT_EQ(Inferred("%0 = input f32[2, 1, 3]\n%1 = input f32[4, 1]\n", "%2 = add(%0, %1, 1) : f32[]"), "f32[2, 4, 3]");
  EXPECT_EQ(Inferred("%0 = input f32[2, 3]{1, 2}\n", "%1 = exp(%0) : f32[]"), "f32[2, 3]{1, 2}");
  EXPECT_EQ(Inferred("%0 = input f32[2, 3, 4, 5]{60, 1, 15, 3}\n%1 = input f32[3, 1, 1]\n", "%2 = mul(%0, %1) : f32[]"),
            "f32[2, 3, 4, 5]{60, 1, 15, 3}");
  // Expanded and sliced operands come out dense, in the order of their strides.
  EXPECT_EQ(Inferred("%0 = input f32[2, 3]{0, 1}\n", "%1 = exp(%0) : f32[]"), "f32[2, 3]");
  EXPECT_EQ(Inferred("%0 = input f32[2, 3, 4]{1, 16, 2}\n", "%1 = exp(%0) : f32[]"), "f32[2, 3, 4]{1, 8, 2}");
  EXPECT_EQ(Inferred("%0 = input f32[2]\n%1 = input f32[3]\n", "%2 = add(%0, %1, 1) : f32[]"),
            "sizes 2 and 3 of dim 0 do not broadcast");
  EXPECT_EQ(Inferred("%0 = input f32[]\n%1 = input bf16[2]@cuda\n", "%2 = add(%0, %1, 1) : f32[]"), "bf16[2]@cuda");
}

TEST(ElementwiseShape, IsSymbolic) {
  const std::string in = absl::StrCat(kSizes, "%0 = input f32[s0, s1, 4]\n%1 = input f32[s1, 1]\n");
  EXPECT_EQ(Inferred(in, "%2 = add(%0, %1, 1) : f32[]"), "f32[s0, s1, 4]");
  EXPECT_EQ(Inferred(absl::StrCat(kSizes, "%0 = input f32[s0, s1, 4]{4, s0*4, 1}\n"), "%1 = exp(%0) : f32[]"),
            "f32[s0, s1, 4]{4, s0*4, 1}");
  // Equal by a guard that no expression shows.
  EXPECT_EQ(Inferred(absl::StrCat(kSizes, "%0 = input f32[s0]\n%1 = input f32[s1]\n"), "%2 = add(%0, %1, 1) : f32[]"),
            "f32[s0]");
  EXPECT_EQ(Inferred(absl::StrCat(kSizes, "%0 = input f32[s0]\n%1 = input f32[8]\n"), "%2 = add(%0, %1, 1) : f32[]"),
            "f32[8]");
}

TEST(CopyShapes, FollowTheMemoryFormat) {
  const std::string in = "%0 = input f32[2, 3, 4, 5]{0, 1, 15, 3}\n";
  EXPECT_EQ(Inferred(in, "%1 = clone(%0, format:contiguous) : f32[]"), "f32[2, 3, 4, 5]");
  EXPECT_EQ(Inferred(in, "%1 = clone(%0, format:channels_last) : f32[]"), "f32[2, 3, 4, 5]{60, 1, 15, 3}");
  EXPECT_EQ(
      Inferred("%0 = input f32[2, 3]{1, 4}\n", "%1 = to_copy(%0, dtype:bf16, none, none, none, false, none) : f32[]"),
      "bf16[2, 3]{1, 2}");
}

TEST(ViewShapes, GiveEagersStrides) {
  const std::string in = absl::StrCat(kSizes, "%0 = input f32[s0, s1, 8]\n");
  EXPECT_EQ(Inferred(in, "%1 = view(%0, [s0*s1, -1]) : f32[]"), "f32[s0*s1, 8]");
  EXPECT_EQ(Inferred(in, "%1 = view(%0, [s0, s1, 2, 4]) : f32[]"), "f32[s0, s1, 2, 4]");
  EXPECT_EQ(Inferred(in, "%1 = transpose(%0, 0, -1) : f32[]"), "f32[8, s1, s0]{1, 8, s1*8}");
  EXPECT_EQ(Inferred(in, "%1 = slice(%0, 1, -1, 9223372036854775807, 1) : f32[]"), "f32[s0, 1, 8]{s1*8, 8, 1}");
  EXPECT_EQ(Inferred(in, "%1 = slice(%0, 2, 1, 7, 4) : f32[]"), "f32[s0, s1, 2]{s1*8, 8, 4}");
  EXPECT_EQ(Inferred(in, "%1 = select(%0, 1, 0) : f32[]"), "f32[s0, 8]{s1*8, 1}");
  EXPECT_EQ(Inferred(in, "%1 = expand(%0, [3, -1, -1, -1], false) : f32[]"), "f32[3, s0, s1, 8]{0, s1*8, 8, 1}");
  EXPECT_EQ(Inferred(in, "%1 = unsqueeze(%0, 1) : f32[]"), "f32[s0, 1, s1, 8]");
  EXPECT_EQ(Inferred("%0 = input f32[4, 6]{1, 4}\n", "%1 = view(%0, [4, 2, 3]) : f32[]"), "f32[4, 2, 3]{1, 12, 4}");
  EXPECT_EQ(Inferred("%0 = input f32[4, 6]{1, 4}\n", "%1 = view(%0, [24]) : f32[]"),
            "a view would need a copy: the layout does not allow these sizes");
}

TEST(ReductionShapes, DropOrKeepDims) {
  const std::string in = absl::StrCat(kSizes, "%0 = input f32[s0, s1, 8]{1, s0, s0*s1}\n");
  EXPECT_EQ(Inferred(in, "%1 = sum_dim(%0, [0, -1], false, none) : f32[]"), "f32[s1]");
  EXPECT_EQ(Inferred(in, "%1 = mean_dim(%0, [1], true, none) : f32[]"), "f32[s0, 1, 8]");
  EXPECT_EQ(Inferred(in, "%1 = amax(%0, [], false) : f32[]"), "f32[]");
}

TEST(WrapIndex, IsExactForAnySign) {
  SymContext syms;
  const Sym size = syms.Size(0, {2, 100}), unknown = syms.Size(1, {-50, 50});
  EXPECT_EQ(WrapIndex(syms, syms.Const(1), size), syms.Const(1));
  EXPECT_EQ(WrapIndex(syms, syms.Const(-1), size), syms.Sub(size, syms.Const(1)));
  const Sym wrapped = WrapIndex(syms, unknown, size);
  for (const int64_t index : {-3, 0, 7}) {
    const auto value = [&](Var var) -> std::optional<int64_t> { return var.index == 0 ? 10 : index; };
    EXPECT_EQ(*syms.Eval(wrapped, value), index < 0 ? 10 + index : index);
  }
}

TEST(ReshapeIndex, LeavesUntouchedDimsAlone) {
  SymContext syms;
  const Sym s0 = syms.Size(0, {2, 100}), s1 = syms.Size(1, {2, 100}), k8 = syms.Const(8), k2 = syms.Const(2),
            k4 = syms.Const(4);
  const Sym i = syms.Axis(0, s0), j = syms.Axis(1, s1), k = syms.Axis(2, k8);
  const auto text = [&](const std::vector<Sym>& index) {
    std::string out;
    for (Sym s : index) absl::StrAppend(&out, out.empty() ? "" : ", ", syms.ToString(s));
    return out;
  };
  // [s0, s1, 8] seen from [s0*s1, 2, 4], and the other way round.
  EXPECT_EQ(
      text(ReshapeIndex(syms, std::vector{i, j, k}, std::vector{s0, s1, k8}, std::vector{syms.Mul(s0, s1), k2, k4})),
      "s1*i0 + i1, i2//4, i2 % 4");
  const Sym m = syms.Axis(3, syms.Mul(s0, s1)), a = syms.Axis(4, k2), b = syms.Axis(5, k4);
  EXPECT_EQ(
      text(ReshapeIndex(syms, std::vector{m, a, b}, std::vector{syms.Mul(s0, s1), k2, k4}, std::vector{s0, s1, k8})),
      "i3//s1, i3 % s1, i4*4 + i5");
}

}  // namespace
}  // namespace kiln
