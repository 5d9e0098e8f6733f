#include "compiler/passes/move_scalars.h"

#include "compiler/passes/pass_testing.h"

namespace kiln {
namespace {

TEST(MoveScalars, CopiesAHostScalarOnceForAllThatReadIt) {
  EXPECT_EQ(BodyOf(MoveScalars(GraphOf(R"(
    %0 = input f32[s0]@cuda
    %1 = input f32[]
    %2 = aten.mul.Tensor(%0, %1) : f32[s0]@cuda
    %3 = aten.add.Tensor(%2, %1, 1) : f32[s0]@cuda
    return %3
  )"))),
            "%0 = input f32[s0]@cuda\n"
            "%1 = input f32[]\n"
            "%2 = aten._to_copy.default(%1, none, none, device:cuda, none, true, none) : f32[]@cuda\n"
            "%3 = aten.mul.Tensor(%0, %2) : f32[s0]@cuda\n"
            "%4 = aten.add.Tensor(%3, %2, 1) : f32[s0]@cuda\n"
            "return %4\n");
}

TEST(MoveScalars, LeavesWhatTheHostComputes) {
  auto graph = GraphOf(R"(
    %0 = input f32[s0]@cuda
    %1 = input f32[]
    %2 = aten.add.Tensor(%1, 1, 1) : f32[]
    return %0, %2
  )");
  EXPECT_EQ(MoveScalars(graph)->get(), graph.get());
}

TEST(MoveScalars, LeavesGraphsOfTheHost) {
  auto graph = GraphOf(R"(
    %0 = input f32[s0]
    %1 = input f32[]
    %2 = aten.mul.Tensor(%0, %1) : f32[s0]
    return %2
  )");
  EXPECT_EQ(MoveScalars(graph)->get(), graph.get());
}

}  // namespace
}  // namespace kiln
