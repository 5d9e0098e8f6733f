// What is read across the vector axis goes through scratch, tile by tile: against the reference meaning.
#include <gtest/gtest.h>

#include "compiler/schedule/testing.h"

namespace kiln {
namespace {

const std::string kTransposed = "%0 = input f32[64, 48]\n%1 = t(%0) : f32[48, 64]{1, 48}\n";

TEST(Tiles, Transposed) {
  const GraphRun run = CheckRun(
      "%0 = input f32[64, 48]\n%1 = input f32[48, 64]\n%2 = t(%0) : f32[48, 64]{1, 48}\n%3 = add(%2, %1, 1) : f32[48, "
      "64]\nreturn %3");
  ASSERT_EQ(run.schedules.size(), 1u);
  EXPECT_GE(run.schedules[0].tiled, 0);
  // The next tile's lines are there when it is written.
  EXPECT_NE(run.kernels[0].find("prefetch b2["), std::string::npos) << run.kernels[0];
}

// Where the mask is false there may be no memory to copy from.
TEST(Tiles, MaskedReadsAreNotCopied) {
  CheckRun(kTransposed + "%2 = constant_pad_nd(%1, [3, 2, 1, 1], 0.5) : f32[50, 69]\nreturn %2");
  CheckRun(
      "%0 = input f32[64, 48]\n%1 = input f32[48, 40]\n%2 = t(%0) : f32[48, 64]{1, 48}\n%3 = cat([%2, %1], 1) : "
      "f32[48, 104]\nreturn %3");
}

}  // namespace
}  // namespace kiln
