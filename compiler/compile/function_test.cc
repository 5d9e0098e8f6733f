// Steps of a plan: what shares a launch, and what stands in whose memory.
#include "compiler/compile/function.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/graph/text.h"
#include "compiler/ops/registry.h"

namespace kiln {
namespace {

v1::Function Build(const std::string& text) {
  absl::StatusOr<std::shared_ptr<const Graph>> graph = ParseGraph("graph inference\n" + text, ResolveOp);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  KernelPool pool("x86-64-v3", "test");
  PassContext context;
  context.subject = "inference";
  context.debug.verify = true;
  absl::StatusOr<v1::Function> function = BuildFunction(**graph, {.target = {.vector_bytes = 32}}, context, pool);
  EXPECT_TRUE(function.ok()) << function.status();
  return function.ok() ? *std::move(function) : v1::Function();
}

// 'a'llocate, 'l'aunch, 'x' external call, 'c'opy; views and releases are left out.
std::string Kinds(const v1::Function& function) {
  std::string kinds;
  for (const v1::Step& step : function.steps()) {
    if (step.has_launch()) kinds += 'l';
    if (step.has_external()) kinds += 'x';
    if (step.kind_case() == v1::Step::kAllocate) kinds += 'a';
    if (step.has_copy()) kinds += 'c';
  }
  return kinds;
}

const std::string kTwoColumnSums =
    "%0 = input f32[4096, 64]\n%1 = input f32[9000, 80]\n"
    "%2 = sum_dim(%0, [0], false, none) : f32[64]\n%3 = sum_dim(%1, [0], false, none) : f32[80]\n";

// Each a kernel over chunks of rows, and one that folds the chunks: the host enters its threads once.
TEST(Function, WhatIsAllocatedBetweenLaunchesIsAllocatedBeforeThem) {
  EXPECT_EQ(Kinds(Build(kTwoColumnSums + "return %2, %3")), "aallll");
  EXPECT_EQ(Kinds(Build(kTwoColumnSums + "%4 = aten.dot.default(%2, %2) : f32[]\nreturn %3, %4")), "allxall");
}

// %2 is needed no more when %4 is allocated, and together they would be the most that is ever alive; not so where
// more lives later.
TEST(Function, UnlessThatNeedsMoreMemory) {
  const std::string text =
      "%0 = input f32[512, 512]\n%1 = input f32[600, 600]\n%2 = aten.mm.default(%0, %0) : f32[512, 512]\n"
      "%3 = sum(%2, none) : f32[]\n%4 = add(%1, %3, 1) : f32[600, 600]\n";
  EXPECT_EQ(Kinds(Build(text + "return %4")), "xllal");
  EXPECT_EQ(Kinds(Build(text + "%5 = aten.mm.default(%4, %4) : f32[600, 600]\nreturn %5")), "xalllx");
}

TEST(Function, AResultTakesTheMemoryOfAFreshOneOfTheHosts) {
  const v1::Function fresh = Build(
      "%0 = input f32[64, 64]\n%1 = aten.mm.default(%0, %0) : f32[64, 64]\n%2 = relu(%1) : f32[64, 64]\nreturn %2");
  EXPECT_EQ(Kinds(fresh), "xl");
  EXPECT_EQ(fresh.values(static_cast<int>(fresh.outputs(0).value())).storage(), v1::PlanValue::EXTERNAL);
  // An operator that nobody knows the schema of may have given its operand back.
  const v1::Function unknown = Build(
      "%0 = input f32[64, 64]\n%1 = test.mystery.default(%0) : f32[64, 64]\n%2 = relu(%1) : f32[64, 64]\nreturn %2");
  EXPECT_EQ(Kinds(unknown), "xal");
}

TEST(Function, AnInputIsUpdatedWhereItStands) {
  const std::string step = "%0 = input f32[64, 64]\n%1 = input f32[64, 64]\n%2 = add(%0, %1, 1) : f32[64, 64]\n";
  const v1::Function alone = Build(step + "update 0 %2\nreturn");
  EXPECT_EQ(Kinds(alone), "l");
  EXPECT_EQ(alone.steps(0).launch().buffers_size(), 2);
  // Where the new value is the caller's too, where the old one is read by others, and where another position is read.
  EXPECT_EQ(Kinds(Build(step + "update 0 %2\nreturn %2")), "alc");
  EXPECT_EQ(Kinds(Build(step + "%3 = aten.mm.default(%0, %2) : f32[64, 64]\nupdate 0 %2\nreturn %3")), "alxc");
  EXPECT_EQ(Kinds(Build("%0 = input f32[64, 64]\n%1 = flip(%0, [0]) : f32[64, 64]\nupdate 0 %1\nreturn")), "alc");
  // Two inputs change places: both are read before either is written.
  EXPECT_EQ(Kinds(Build("%0 = input f32[8]\n%1 = input f32[8]\n%2 = neg(%0) : f32[8]\n%3 = neg(%1) : f32[8]\n"
                        "update 0 %3\nupdate 1 %2\nreturn")),
            "l");
}

}  // namespace
}  // namespace kiln
