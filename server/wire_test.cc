#include "server/wire.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(Wire, DigestRoundTrips) {
  const Digest d = Digest::Of("hello");
  const absl::StatusOr<Digest> back = FromProto(ToProto(d), "artifact");
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, d);
}

TEST(Wire, ShortDigestIsRefusedByName) {
  v1::Digest d;
  d.set_sha256("abc");
  const absl::Status s = FromProto(d, "digest").status();
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(s.message(), "digest.sha256: want 32 bytes, have 3");
}

TEST(Wire, KeyPartKeepsNameValueAndHash) {
  const v1::KeyPart p = ToProto(KeyPart{"target", Digest::Of("x86-64-v3"), "x86-64-v3"});
  EXPECT_EQ(p.name(), "target");
  EXPECT_EQ(p.value(), "x86-64-v3");
  EXPECT_EQ(p.sha256().size(), 32u);
}

TEST(Wire, SerializesAll) {
  v1::Artifact a;
  a.set_version(1);
  a.set_build("0123456789ab");
  EXPECT_EQ(SerializeDeterministic(a), a.SerializeAsString());
}

TEST(Wire, OneLineHasNoControlCharacters) {
  EXPECT_EQ(OneLine("a\nb\x1b[0m\tc"), "a b [0m c");
  EXPECT_EQ(OneLine("abcdef", 3), "abc...");
}

}  // namespace
}  // namespace kiln
