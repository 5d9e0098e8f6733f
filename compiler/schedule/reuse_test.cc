// Results in the memory of values that die where they are made: which, and that the values are right.
#include <gtest/gtest.h>

#include "compiler/schedule/testing.h"

namespace kiln {
namespace {

// %1 stands in memory, and nothing reads it but what follows.
const std::string kMade = "%0 = input f32[120, 400]\n%1 = cumsum(%0, 0, none) : f32[120, 400]\n";

TEST(Reuse, Chain) {
  EXPECT_EQ(CheckRun(kMade + "%2 = neg(%1) : f32[120, 400]\nreturn %2").reused, 1u);
  EXPECT_EQ(CheckRun(kMade + "%2 = neg(%1) : f32[120, 400]\n%3 = cumsum(%2, 1, none) : f32[120, 400]\n"
                             "%4 = neg(%3) : f32[120, 400]\nreturn %4")
                .reused,
            2u);
}

TEST(Reuse, WhatLivesOnStays) {
  EXPECT_EQ(CheckRun(kMade + "%2 = neg(%1) : f32[120, 400]\nreturn %2, %1").reused, 0u);
  EXPECT_EQ(CheckRun("%0 = input f32[120, 400]\n%1 = neg(%0) : f32[120, 400]\nreturn %1").reused, 0u);
  EXPECT_EQ(CheckRun(kMade + "%2 = neg(%1) : f32[120, 400]\n%3 = cumsum(%1, 1, none) : f32[120, 400]\n"
                             "return %2, %3")
                .reused,
            0u);
}

// Elements that are read elsewhere as well could be overwritten before.
TEST(Reuse, OtherPlaces) {
  EXPECT_EQ(
      CheckRun(kMade + "%2 = flip(%1, [0]) : f32[120, 400]\n%3 = add(%1, %2, 1) : f32[120, 400]\nreturn %3").reused,
      0u);
  EXPECT_EQ(CheckRun("%0 = input f32[200, 200]\n%1 = cumsum(%0, 0, none) : f32[200, 200]\n"
                     "%2 = t(%1) : f32[200, 200]{1, 200}\n%3 = add(%0, %2, 1) : f32[200, 200]\nreturn %3")
                .reused,
            0u);
  EXPECT_EQ(CheckRun(kMade + "%2 = sum_dim(%1, [0], true, none) : f32[1, 400]\n"
                             "%3 = div(%1, %2) : f32[120, 400]\nreturn %3")
                .reused,
            1u);
}

// One result takes the memory, the other still gets the element that was there.
TEST(Reuse, TwoResults) {
  EXPECT_EQ(
      CheckRun(kMade + "%2 = mul(%1, 2) : f32[120, 400]\n%3 = add(%1, 1, 1) : f32[120, 400]\nreturn %2, %3").reused,
      1u);
  EXPECT_EQ(CheckRun("%0 = input f32[120, 400]\n%1 = cumsum(%0, 0, none) : f32[120, 400]\n"
                     "%2 = cumsum(%0, 1, none) : f32[120, 400]\n%3 = mul(%1, %2) : f32[120, 400]\n"
                     "%4 = add(%1, %2, 1) : f32[120, 400]\nreturn %3, %4")
                .reused,
            2u);
}

// A later loop over the row reads it again: only what is stored there may take its place.
TEST(Reuse, Phases) {
  EXPECT_EQ(CheckRun(kMade + "%2 = neg(%1) : f32[120, 400]\n%3 = amax(%1, [1], true) : f32[120, 1]\n"
                             "%4 = sub(%1, %3, 1) : f32[120, 400]\nreturn %2, %4")
                .reused,
            1u);
}

TEST(Reuse, OtherTypesStay) {
  EXPECT_EQ(CheckRun(kMade + "%2 = convert_element_type(%1, dtype:i32) : i32[120, 400]\nreturn %2").reused, 0u);
}

}  // namespace
}  // namespace kiln
