#include "client/cli/format.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(Format, BytesAndTimes) {
  EXPECT_EQ(Bytes(0), "0 B");
  EXPECT_EQ(Bytes(1536), "1.5 KiB");
  EXPECT_EQ(Bytes(10ull << 30), "10.0 GiB");
  EXPECT_EQ(Seconds(0.0032), "3.2 ms");
  EXPECT_EQ(Seconds(1.5), "1.50 s");
  EXPECT_EQ(Seconds(125), "2m 05s");
  EXPECT_EQ(Seconds(3 * 3600 + 240), "3h 04m");
  EXPECT_EQ(Seconds(86400.0 * 5 + 3600 * 6), "5d 06h");
  EXPECT_EQ(Ago(1'000'000, 4'500'000), "3s ago");
  EXPECT_EQ(Ago(0, 5), "-");
  EXPECT_EQ(Hex(std::string("\x00\xab", 2)), "00ab");
  EXPECT_EQ(Hex("\xab\xcd", 2), "ab");
}

}  // namespace
}  // namespace kiln
