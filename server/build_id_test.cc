#include "server/build_id.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kiln {
namespace {

TEST(BuildId, TwelveLowerCaseHexDigitsAndStable) {
  const absl::StatusOr<std::string> id = ComputeBuildId();
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_EQ(id->size(), 12u);
  EXPECT_TRUE(std::all_of(id->begin(), id->end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  })) << *id;
  EXPECT_EQ(*ComputeBuildId(), *id);
}

}  // namespace
}  // namespace kiln
