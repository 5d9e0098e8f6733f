#include "cache/key.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace kiln {
namespace {

using NamedValues = std::vector<std::pair<std::string, std::string>>;

KeyParts Make(const NamedValues& values, std::string_view domain = "test") {
  KeyBuilder b(domain);
  for (const auto& [name, value] : values) b.Add(name, value);
  return b.Build().value();
}

const NamedValues kBase = {{"graph", "add(x, y)"}, {"options", ""}, {"target", "x86-64-v3"}, {"torch", "2.5"}};

TEST(Key, EachPartChangesIt) {
  std::set<Key> keys = {Make(kBase).ToKey(), Make(kBase, "other").ToKey()};
  for (size_t i = 0; i < kBase.size(); ++i) {
    NamedValues changed = kBase;
    changed[i].second += "1";
    EXPECT_TRUE(keys.insert(Make(changed).ToKey()).second) << "value of " << kBase[i].first;
    changed = kBase;
    changed[i].first += "1";
    EXPECT_TRUE(keys.insert(Make(changed).ToKey()).second) << "name of " << kBase[i].first;
    changed = kBase;
    changed.erase(changed.begin() + static_cast<ptrdiff_t>(i));
    EXPECT_TRUE(keys.insert(Make(changed).ToKey()).second) << "no " << kBase[i].first;
  }
}

TEST(Key, OrderCounts) {
  NamedValues swapped = kBase;
  std::swap(swapped[0], swapped[1]);
  EXPECT_NE(Make(swapped).ToKey(), Make(kBase).ToKey());
}

// With every split of the same bytes over two adjacent parts, and over a part's name and value, no two keys are equal.
TEST(Key, MovingBytesBetweenPartsChangesIt) {
  const std::string bytes = "abcdefgh";
  std::set<Key> keys;
  for (size_t i = 0; i <= bytes.size(); ++i) {
    EXPECT_TRUE(keys.insert(Make({{"p", bytes.substr(0, i)}, {"q", bytes.substr(i)}}).ToKey()).second) << i;
  }
  for (size_t i = 1; i <= bytes.size(); ++i) {
    EXPECT_TRUE(keys.insert(Make({{bytes.substr(0, i), bytes.substr(i)}}).ToKey()).second) << i;
  }
}

// Pins the construction: a change of it must be deliberate, since it makes every stored entry unreachable.
TEST(Key, IsTheSameInEveryProcess) {
  EXPECT_EQ(Make({{"a", "1"}}, "golden").ToKey().Hex(),
            "98ed4a62cc91a2685a3a47da01835fecc0d3abdb90145460b6adc89b86d3a6b1");
}

TEST(KeyBuilder, RefusesDuplicatesAndEmptyNames) {
  const absl::StatusOr<KeyParts> twice = KeyBuilder("d").Add("a", "1").Add("b", "2").Add("a", "1").Build();
  EXPECT_EQ(twice.status(), absl::InvalidArgumentError("key: part 'a' was added twice"));
  EXPECT_EQ(KeyBuilder("d").Add("domain", "x").Build().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(KeyBuilder("d").Add("", "x").Build().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(KeyBuilder, BoundsTheNumberOfParts) {
  KeyBuilder b("d");
  for (size_t i = 1; i < KeyParts::kMaxParts; ++i) b.Add("p" + std::to_string(i), "");
  EXPECT_TRUE(b.Build().ok());
  EXPECT_EQ(b.Add("one more", "").Build().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(KeyParts, KeepShortTextOnly) {
  const std::string longest(KeyParts::kMaxPrintable, 'x');
  const KeyParts p = Make({{"short", "x86"}, {"longest", longest}, {"long", longest + "x"}, {"binary", "\x01"}});
  EXPECT_EQ(p.parts[1].printable, "x86");
  EXPECT_EQ(p.parts[2].printable, longest);
  EXPECT_EQ(p.parts[3].printable, "");
  EXPECT_EQ(p.parts[4].printable, "");
  EXPECT_EQ(p.parts[3].value, Digest::Of(longest + "x"));
}

TEST(KeyParts, SerialisedTheyGiveTheSameKey) {
  const KeyParts p = Make(kBase);
  const KeyParts q = KeyParts::Parse(p.Serialize()).value();
  EXPECT_EQ(q, p);
  EXPECT_EQ(q.ToKey(), p.ToKey());
}

TEST(KeyParts, ParseRefusesTruncatedAndExtended) {
  const std::string bytes = Make(kBase).Serialize();
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_EQ(KeyParts::Parse(std::string_view(bytes).substr(0, n)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(KeyParts::Parse(bytes + "x").ok());
}

TEST(DiffKeyParts, NamesWhatDiffers) {
  const std::string big(1000, 'g');
  const KeyParts l = Make({{"graph", big}, {"dim 0", "8"}, {"target", "v3"}, {"old", "1"}});
  const KeyParts r = Make({{"graph", big + "g"}, {"dim 0", "16"}, {"target", "v3"}, {"new", ""}});
  const std::vector<KeyPartDiff> d = DiffKeyParts(l, r);
  ASSERT_EQ(d.size(), 4u);
  EXPECT_EQ(d[0].left, Digest::Of(big).ToString());
  EXPECT_EQ(d[1].name, "dim 0");
  EXPECT_EQ(d[1].left, "8");
  EXPECT_EQ(d[1].right, "16");
  EXPECT_EQ(d[2].name, "old");
  EXPECT_FALSE(d[2].in_right);
  EXPECT_EQ(d[3].name, "new");
  EXPECT_FALSE(d[3].in_left);
  EXPECT_TRUE(DiffKeyParts(l, l).empty());
}

TEST(Key, TextAndBytesRoundTrip) {
  const Key k = Make(kBase).ToKey();
  EXPECT_EQ(Key::Parse(k.Hex()).value(), k);
  EXPECT_EQ(Key::FromBytes(k.bytes()).value(), k);
  EXPECT_FALSE(Key::Parse(k.Hex() + "0").ok());
  EXPECT_FALSE(Key::FromBytes(k.bytes().substr(1)).ok());
}

}  // namespace
}  // namespace kiln
