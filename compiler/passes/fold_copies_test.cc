#include "compiler/passes/fold_copies.h"

#include "compiler/passes/pass_testing.h"

namespace kiln {
namespace {

TEST(FoldCopies, CopiesThatChangeNothing) {
  EXPECT_EQ(BodyOf(FoldCopies(GraphOf(R"(
    %0 = input f32[s0, 8]
    %1 = aten.clone.default(%0, none) : f32[s0, 8]
    %2 = aten._to_copy.default(%1, dtype:f32, none, none, none, false, none) : f32[s0, 8]
    %3 = prims.convert_element_type.default(%2, dtype:f32) : f32[s0, 8]
    %4 = aten.exp.default(%3) : f32[s0, 8]
    return %4
  )"))),
            "%0 = input f32[s0, 8]\n%1 = aten.exp.default(%0) : f32[s0, 8]\nreturn %1\n");
}

TEST(FoldCopies, ConversionsAndOtherLayoutsStay) {
  auto graph = GraphOf(R"(
    %0 = input f32[s0, 8]{1, s0}
    %1 = aten.clone.default(%0, format:contiguous) : f32[s0, 8]
    %2 = aten._to_copy.default(%1, dtype:bf16, none, none, none, false, none) : bf16[s0, 8]
    %3 = aten.exp.default(%2) : bf16[s0, 8]
    return %3
  )");
  EXPECT_EQ(FoldCopies(graph)->get(), graph.get());
}

TEST(FoldCopies, WhatLeavesTheGraphIsACopy) {
  auto graph = GraphOf(R"(
    %0 = input f32[s0, 8]
    %1 = aten.clone.default(%0, none) : f32[s0, 8]
    %2 = aten.t.default(%1) : f32[8, s0]{1, 8}
    %3 = aten.clone.default(%0, none) : f32[s0, 8]
    %4 = aten.clone.default(%0, none) : f32[s0, 8]
    %5 = mylib.view.default(%4) : f32[s0, 8]
    update 0 %3
    return %2, %5
  )");
  // mylib.view's schema says nothing of aliases; with one that does, its operand stays too.
  EXPECT_EQ((*FoldCopies(graph))->nodes().size(), 4u);
  auto aliasing = GraphOf(R"kir(
    op mylib.view.default "mylib::view(Tensor(a) x) -> Tensor(a)"
    %0 = input f32[s0, 8]
    %1 = aten.clone.default(%0, none) : f32[s0, 8]
    %2 = mylib.view.default(%1) : f32[s0, 8]
    return %2
  )kir");
  EXPECT_EQ(FoldCopies(aliasing)->get(), aliasing.get());
}

}  // namespace
}  // namespace kiln
