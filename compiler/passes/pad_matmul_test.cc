#include "compiler/passes/pad_matmul.h"

#include "compiler/passes/pass_testing.h"

namespace kiln {
namespace {

TEST(PadMatmul, AVocabularyOfOddLength) {
  EXPECT_EQ(BodyOf(PadMatmuls(GraphOf(R"(
    %0 = input bf16[4096, 768]@cuda
    %1 = input bf16[768, 50257]{1, 768}@cuda
    %2 = aten.mm.default(%0, %1) : bf16[4096, 50257]@cuda
    return %2
  )"))),
            "%0 = input bf16[4096, 768]@cuda\n"
            "%1 = input bf16[768, 50257]{1, 768}@cuda\n"
            "%2 = transpose(%1, 0, 1) : bf16[50257, 768]@cuda\n"
            "%3 = constant_pad_nd(%2, [0, 0, 0, 7], 0) : bf16[50264, 768]@cuda\n"
            "%4 = transpose(%3, 0, 1) : bf16[768, 50264]{1, 768}@cuda\n"
            "%5 = aten.mm.default(%0, %4) : bf16[4096, 50264]@cuda\n"
            "%6 = slice(%5, 1, 0, 50257, 1) : bf16[4096, 50257]{50264, 1}@cuda\n"
            "%7 = clone(%6, none) : bf16[4096, 50257]@cuda\n"
            "return %7\n");
}

TEST(PadMatmul, WhatIsSummedIsPaddedOnBothSides) {
  EXPECT_EQ(BodyOf(PadMatmuls(GraphOf(R"(
    %0 = input bf16[4096, 50257]@cuda
    %1 = input bf16[50257, 768]@cuda
    %2 = aten.mm.default(%0, %1) : bf16[4096, 768]@cuda
    return %2
  )"))),
            "%0 = input bf16[4096, 50257]@cuda\n"
            "%1 = input bf16[50257, 768]@cuda\n"
            "%2 = constant_pad_nd(%0, [0, 7, 0, 0], 0) : bf16[4096, 50264]@cuda\n"
            "%3 = constant_pad_nd(%1, [0, 0, 0, 7], 0) : bf16[50264, 768]@cuda\n"
            "%4 = aten.mm.default(%2, %3) : bf16[4096, 768]@cuda\n"
            "return %4\n");
}

TEST(PadMatmul, AGradientIsPaddedOnceForBothProducts) {
  EXPECT_EQ(BodyOf(PadMatmuls(GraphOf(R"(
    %0 = input bf16[4096, 50257]@cuda
    %1 = input bf16[50257, 768]@cuda
    %2 = input bf16[4096, 768]@cuda
    %3 = aten.t.default(%0) : bf16[50257, 4096]{1, 50257}@cuda
    %4 = aten.mm.default(%3, %2) : bf16[50257, 768]@cuda
    %5 = aten.mm.default(%0, %1) : bf16[4096, 768]@cuda
    return %4, %5
  )"))),
            "%0 = input bf16[4096, 50257]@cuda\n"
            "%1 = input bf16[50257, 768]@cuda\n"
            "%2 = input bf16[4096, 768]@cuda\n"
            "%3 = aten.t.default(%0) : bf16[50257, 4096]{1, 50257}@cuda\n"
            "%4 = constant_pad_nd(%0, [0, 7, 0, 0], 0) : bf16[4096, 50264]@cuda\n"
            "%5 = transpose(%4, 0, 1) : bf16[50264, 4096]{1, 50264}@cuda\n"
            "%6 = aten.mm.default(%5, %2) : bf16[50264, 768]@cuda\n"
            "%7 = slice(%6, 0, 0, 50257, 1) : bf16[50257, 768]@cuda\n"
            "%8 = constant_pad_nd(%1, [0, 0, 0, 7], 0) : bf16[50264, 768]@cuda\n"
            "%9 = aten.mm.default(%4, %8) : bf16[4096, 768]@cuda\n"
            "return %7, %9\n");
}

TEST(PadMatmul, RowsOfWholeVectorsStay) {
  auto graph = GraphOf(R"(
    %0 = input bf16[4096, 768]@cuda
    %1 = input bf16[768, 50304]@cuda
    %2 = aten.mm.default(%0, %1) : bf16[4096, 50304]@cuda
    return %2
  )");
  EXPECT_EQ(PadMatmuls(graph)->get(), graph.get());
}

TEST(PadMatmul, OnlyWhereItPays) {
  auto graph = GraphOf(R"(
    %0 = input bf16[64, 768]@cuda
    %1 = input bf16[768, 1001]@cuda
    %2 = input f32[4096, 768]@cuda
    %3 = input f32[768, 50257]@cuda
    %4 = input bf16[s0, 768]@cuda
    %5 = input bf16[768, 50257]@cuda
    %6 = aten.mm.default(%0, %1) : bf16[64, 1001]@cuda
    %7 = aten.mm.default(%2, %3) : f32[4096, 50257]@cuda
    %8 = aten.mm.default(%4, %5) : bf16[s0, 50257]@cuda
    return %6, %7, %8
  )");
  EXPECT_EQ(PadMatmuls(graph)->get(), graph.get());
}

TEST(PadMatmul, TheHostsStay) {
  auto graph = GraphOf(R"(
    %0 = input bf16[4096, 768]
    %1 = input bf16[768, 50257]
    %2 = aten.mm.default(%0, %1) : bf16[4096, 50257]
    return %2
  )");
  EXPECT_EQ(PadMatmuls(graph)->get(), graph.get());
}

}  // namespace
}  // namespace kiln
