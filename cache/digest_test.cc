#include "cache/digest.h"

#include <gtest/gtest.h>

#include <set>
#include <unordered_set>

namespace kiln {
namespace {

// FIPS 180-4 examples.
TEST(Digest, IsSha256) {
  EXPECT_EQ(Digest::Of("abc").Hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Digest::Of("").Hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Digest::Of("abc").size, 3u);
}

TEST(Digest, TextRoundTrips) {
  const Digest d = Digest::Of("some bytes");
  EXPECT_EQ(d.ToString(), d.Hex() + "/10");
  EXPECT_EQ(*Digest::Parse(d.ToString()), d);
}

TEST(Digest, ParseRefusesAllButItsOwnText) {
  const std::string hex = Digest::Of("x").Hex();
  std::string upper = hex;
  for (char& c : upper) c = static_cast<char>(toupper(c));
  for (const std::string& bad :
       {std::string(), hex, hex + "/", hex + "/-1", hex + "/ 1", hex + "/01", hex + "/1x", hex.substr(1) + "/1",
        hex + "0/1", upper + "/1", std::string("/1"), hex + "/99999999999999999999"}) {
    EXPECT_EQ(Digest::Parse(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(Digest, SizeIsPartOfTheName) {
  Digest a = Digest::Of("x"), b = a;
  b.size = 2;
  EXPECT_NE(a, b);
  EXPECT_EQ((std::set<Digest>{a, b, a}).size(), 2u);
  EXPECT_EQ((std::unordered_set<Digest>{a, b, a}).size(), 2u);
}

TEST(Hasher, PiecesGiveTheDigestOfTheWhole) {
  std::string whole;
  for (int i = 0; i < 1000; ++i) whole.push_back(static_cast<char>(i * 7));
  for (size_t step : {1u, 3u, 64u, 999u, 2000u}) {
    Hasher h;
    for (size_t i = 0; i < whole.size(); i += step) h.Update(std::string_view(whole).substr(i, step));
    EXPECT_EQ(h.Finish(), Digest::Of(whole)) << step;
  }
}

}  // namespace
}  // namespace kiln
