#include "cache/coding.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

std::string Sample() {
  Encoder e;
  e.U8(200);
  e.U64(0x0102030405060708);
  e.I64(-2);
  e.Bytes(std::string("a\0b", 3));
  e.Raw("raw");
  return e.Take();
}

TEST(Coding, RoundTrips) {
  const std::string bytes = Sample();
  Decoder d(bytes);
  EXPECT_EQ(d.U8(), 200);
  EXPECT_EQ(d.U64(), 0x0102030405060708u);
  EXPECT_EQ(d.I64(), -2);
  EXPECT_EQ(d.Bytes(), std::string_view("a\0b", 3));
  EXPECT_FALSE(d.done());
  EXPECT_EQ(d.Raw(3), "raw");
  EXPECT_TRUE(d.done());
}

TEST(Coding, EveryTruncationIsSeen) {
  const std::string bytes = Sample();
  for (size_t n = 0; n < bytes.size(); ++n) {
    Decoder d(std::string_view(bytes).substr(0, n));
    d.U8(), d.U64(), d.I64(), d.Bytes(), d.Raw(3);
    EXPECT_FALSE(d.ok()) << n;
    EXPECT_EQ(d.U64(), 0u);
  }
}

TEST(Coding, HugeLengthsAndCountsAreRefused) {
  Encoder e;
  e.U64(~uint64_t{0});
  Decoder d(e.str());
  EXPECT_EQ(d.Bytes(), "");
  EXPECT_FALSE(d.ok());
  Decoder c(e.str());
  EXPECT_EQ(c.Count(1), 0u);
  EXPECT_FALSE(c.ok());
}

}  // namespace
}  // namespace kiln
