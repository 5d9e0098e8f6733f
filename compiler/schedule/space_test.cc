#include "compiler/schedule/space.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

class SpaceTest : public testing::Test {
 protected:
  Index Sizes(std::vector<int64_t> sizes) {
    Index index;
    for (const int64_t size : sizes)
      index.push_back(size < 0 ? syms_.Size(static_cast<uint32_t>(-size), {0, 100}) : syms_.Const(size));
    return index;
  }
  SpaceShape Rows(std::vector<int64_t> sizes, DimMask reduced) {
    return {.sizes = Sizes(std::move(sizes)), .reduced = std::move(reduced)};
  }

  SymContext syms_;
};

TEST_F(SpaceTest, MasksAreMappedWhereBothAreCutAlike) {
  EXPECT_EQ(MapMask(syms_, Sizes({48, 64}), {true, false}, Sizes({2, 24, 64})), (DimMask{true, true, false}));
  EXPECT_EQ(MapMask(syms_, Sizes({2, 24, 64}), {false, false, true}, Sizes({48, 1, 64})),
            (DimMask{false, false, true}));
  EXPECT_EQ(MapMask(syms_, Sizes({2, 24, 64}), {true, false, false}, Sizes({48, 64})), std::nullopt);
  EXPECT_EQ(MapMask(syms_, Sizes({-1, 64}), {false, true}, Sizes({-1, 8, 8})), (DimMask{false, true, true}));
  EXPECT_EQ(MapMask(syms_, Sizes({-1, 64}), {false, true}, Sizes({-2, 64})), std::nullopt);
}

TEST_F(SpaceTest, EqualReductionsStayRows) {
  const auto combined = Combine(syms_, Rows({4, 8}, {false, true}), Rows({2, 2, 8}, {false, false, true}));
  ASSERT_TRUE(combined);
  EXPECT_EQ(combined->shape.sizes, Sizes({2, 2, 8}));
  EXPECT_EQ(combined->shape.reduced, (DimMask{false, false, true}));
  EXPECT_FALSE(combined->shape.sunk || combined->sink_first || combined->sink_second);
}

TEST_F(SpaceTest, TheOuterOfTwoReductionsSinks) {
  for (const bool swap : {false, true}) {
    const SpaceShape rows = Rows({4, 8}, {false, true}), columns = Rows({4, 8}, {true, false});
    const auto combined = swap ? Combine(syms_, columns, rows) : Combine(syms_, rows, columns);
    ASSERT_TRUE(combined);
    EXPECT_EQ(combined->shape.reduced, (DimMask{false, true}));
    EXPECT_EQ(combined->shape.sunk, (DimMask{true, false}));
    EXPECT_EQ(combined->sink_first, swap);
    EXPECT_EQ(combined->sink_second, !swap);
  }
}

TEST_F(SpaceTest, ColumnsThatAreWaitedForDoNotSink) {
  SpaceShape columns = Rows({4, 8}, {true, false});
  columns.can_sink = false;
  EXPECT_FALSE(Combine(syms_, Rows({4, 8}, {false, true}), columns));
}

TEST_F(SpaceTest, ReductionsThatNoOneNestComputes) {
  EXPECT_FALSE(Combine(syms_, Rows({4, 8, 2}, {true, false, false}), Rows({4, 8, 2}, {false, true, false})));
  EXPECT_FALSE(Combine(syms_, Rows({4, 8}, {true, false}), Rows({8, 4}, {true, false})));
  EXPECT_FALSE(
      Combine(syms_, Rows({4, 100000}, {false, true}), Rows({4, 100000}, {true, false})));  // too many accumulators
}

TEST_F(SpaceTest, CutAlike) {
  EXPECT_TRUE(AreCutAlike(syms_, Sizes({4, 8}), Sizes({2, 2, 1, 8})));
  EXPECT_TRUE(AreCutAlike(syms_, Sizes({2, 16}), Sizes({32})));
  EXPECT_TRUE(AreCutAlike(syms_, Sizes({-1, 8}), Sizes({-1, 2, 4})));
  EXPECT_FALSE(AreCutAlike(syms_, Sizes({4, 8}), Sizes({8, 4})));
  EXPECT_FALSE(AreCutAlike(syms_, Sizes({4, 8}), Sizes({4, 9})));
  EXPECT_FALSE(AreCutAlike(syms_, Sizes({4, 3, 8}), Sizes({2, 6, 8})));
}

TEST_F(SpaceTest, DifferentNumbersOfPoints) {
  EXPECT_FALSE(Combine(syms_, {.sizes = Sizes({4})}, {.sizes = Sizes({8})}));
}

TEST_F(SpaceTest, PartsHaveTheirOwnPositions) {
  const GroupSpace space(
      syms_, {.sizes = Sizes({4, 1, 8}), .reduced = DimMask{false, false, true}, .sunk = DimMask{true, false, false}});
  EXPECT_EQ(space.part(Place::kFull).count, syms_.Const(32));
  EXPECT_EQ(space.part(Place::kOuter).count, syms_.Const(4));
  EXPECT_EQ(space.part(Place::kKept).count, syms_.Const(8));
  EXPECT_EQ(space.part(Place::kOuter).position, space.part(Place::kFull).axes[0]);
  EXPECT_EQ(space.part(Place::kKept).position, space.part(Place::kFull).axes[2]);
}

}  // namespace
}  // namespace kiln
