#include "client/cpp/overlap.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

bool Apart(std::vector<MemoryRange> ranges) { return WrittenApart(ranges); }

TEST(Overlap, ReadersMayShare) {
  EXPECT_TRUE(Apart({}));
  EXPECT_TRUE(Apart({{0, 10}, {5, 15}, {0, 10}}));
}

TEST(Overlap, AWrittenRangeIsAlone) {
  EXPECT_TRUE(Apart({{0, 10, true}, {10, 20}, {20, 30, true}}));
  EXPECT_FALSE(Apart({{0, 10, true}, {9, 20}}));
  EXPECT_FALSE(Apart({{9, 20, true}, {0, 10}}));
  EXPECT_FALSE(Apart({{0, 10, true}, {0, 10, true}}));
  EXPECT_FALSE(Apart({{0, 100, true}, {2, 3}, {50, 60}}));
  EXPECT_FALSE(Apart({{0, 100}, {2, 3}, {50, 60, true}}));
  EXPECT_FALSE(Apart({{0, 10}, {5, 6, true}}));
}

TEST(Overlap, NothingIsApartFromEverything) { EXPECT_TRUE(Apart({{0, 10, true}, {5, 5}, {5, 5, true}})); }

}  // namespace
}  // namespace kiln
