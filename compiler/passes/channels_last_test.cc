#include "compiler/passes/channels_last.h"

#include "compiler/passes/pass_testing.h"

namespace kiln {
namespace {

const char kConvolution[] = "none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1";

std::string Graph(std::string text) {
  for (size_t at; (at = text.find("CONV")) != std::string::npos;) text.replace(at, 4, kConvolution);
  return text;
}

std::string Chosen(const std::string& text) { return BodyOf(ChooseChannelsLast(GraphOf(Graph(text)))); }

TEST(ChannelsLast, ConvertsWhatComesInAndWhatGoesOut) {
  EXPECT_EQ(Chosen(R"(
    %0 = input f32[s0, 3, 8, 8]
    %1 = input f32[4, 3, 3, 3]
    %2 = input f32[4, 4, 3, 3]
    %3 = aten.convolution.default(%0, %1, CONV) : f32[s0, 4, 8, 8]
    %4 = aten.relu.default(%3) : f32[s0, 4, 8, 8]
    %5 = aten.convolution.default(%4, %2, CONV) : f32[s0, 4, 8, 8]
    %6 = aten.exp.default(%5) : f32[s0, 4, 8, 8]
    return %6
  )"),
            Graph(R"(%0 = input f32[s0, 3, 8, 8]
%1 = input f32[4, 3, 3, 3]
%2 = input f32[4, 4, 3, 3]
%3 = clone(%0, none) : f32[s0, 3, 8, 8]{192, 1, 24, 3}
%4 = aten.convolution.default(%3, %1, CONV) : f32[s0, 4, 8, 8]{256, 1, 32, 4}
%5 = aten.relu.default(%4) : f32[s0, 4, 8, 8]{256, 1, 32, 4}
%6 = aten.convolution.default(%5, %2, CONV) : f32[s0, 4, 8, 8]{256, 1, 32, 4}
%7 = aten.exp.default(%6) : f32[s0, 4, 8, 8]
return %7
)"));
}

// A view, an unknown operator and an output get what the client says; the next convolution does not convert back.
TEST(ChannelsLast, WhatNeedsTheClientsLayoutGetsACopy) {
  EXPECT_EQ(Chosen(R"(
    %0 = input f32[2, 4, 8, 8]{256, 1, 32, 4}
    %1 = input f32[4, 4, 3, 3]
    %2 = aten.convolution.default(%0, %1, CONV) : f32[2, 4, 8, 8]
    %3 = aten.view.default(%2, [2, 256]) : f32[2, 256]
    %4 = mylib.op.default(%2) : f32[2, 4, 8, 8]
    %5 = aten.convolution.default(%2, %1, CONV) : f32[2, 4, 8, 8]
    return %2, %3, %4, %5
  )"),
            Graph(R"(%0 = input f32[2, 4, 8, 8]{256, 1, 32, 4}
%1 = input f32[4, 4, 3, 3]
%2 = aten.convolution.default(%0, %1, CONV) : f32[2, 4, 8, 8]{256, 1, 32, 4}
%3 = clone(%2, none) : f32[2, 4, 8, 8]
%4 = aten.view.default(%3, [2, 256]) : f32[2, 256]
%5 = mylib.op.default(%3) : f32[2, 4, 8, 8]
%6 = aten.convolution.default(%2, %1, CONV) : f32[2, 4, 8, 8]{256, 1, 32, 4}
%7 = clone(%6, none) : f32[2, 4, 8, 8]
return %3, %4, %5, %7
)"));
}

// Random numbers are drawn in the order of memory.
TEST(ChannelsLast, DrawsAsTheClientSays) {
  const std::string text = Chosen(R"(
    %0 = input f32[2, 4, 8, 8]
    %1 = input f32[4, 4, 3, 3]
    %2 = aten.convolution.default(%0, %1, CONV) : f32[2, 4, 8, 8]
    %3 = aten.rand_like.default(%2, none, none, none, none, none) : f32[2, 4, 8, 8]
    %4 = aten.mul.Tensor(%2, %3) : f32[2, 4, 8, 8]
    %5 = aten.convolution.default(%4, %1, CONV) : f32[2, 4, 8, 8]
    return %5
  )");
  EXPECT_NE(text.find("aten.rand_like.default(%4, none, none, none, none, none) : f32[2, 4, 8, 8]\n"),
            std::string::npos)
      << text;
}

TEST(ChannelsLast, NotForOneConvolutionNorForF64) {
  for (const char* text : {R"(
    %0 = input f32[2, 4, 8, 8]
    %1 = input f32[4, 4, 3, 3]
    %2 = aten.convolution.default(%0, %1, CONV) : f32[2, 4, 8, 8]
    return %2
  )",
                           R"(
    %0 = input f64[2, 4, 8, 8]
    %1 = input f64[4, 4, 3, 3]
    %2 = aten.convolution.default(%0, %1, CONV) : f64[2, 4, 8, 8]
    %3 = aten.convolution.default(%2, %1, CONV) : f64[2, 4, 8, 8]
    return %3
  )"}) {
    const auto graph = GraphOf(Graph(text));
    EXPECT_EQ(ChooseChannelsLast(graph)->get(), graph.get());
  }
}

}  // namespace
}  // namespace kiln
