#include "cache/memory_claims.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "cache/fake_clock.h"

namespace kiln {
namespace {

class MemoryClaimsTest : public ::testing::Test {
 protected:
  static Key K(const std::string& name) { return KeyBuilder(name).Build()->ToKey(); }
  absl::StatusOr<Claim> Acquire(const std::string& key, const std::string& owner) {
    return claims_.Acquire(ctx_, K(key), owner, absl::Seconds(10));
  }

  RequestContext ctx_;
  FakeClock clock_;
  MemoryClaims claims_{&clock_};
};

TEST_F(MemoryClaimsTest, OneOwnerAtATime) {
  const Claim a = Acquire("k", "a").value();
  const absl::Status refused = Acquire("k", "b").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(refused.message().find("claimed by a"), absl::string_view::npos) << refused;
  EXPECT_TRUE(Acquire("other", "b").ok());
  EXPECT_TRUE(claims_.Release(ctx_, a).ok());
  EXPECT_EQ(Acquire("k", "b")->owner, "b");
}

TEST_F(MemoryClaimsTest, ExpiresUnlessRenewed) {
  const Claim a = Acquire("k", "a").value();
  EXPECT_EQ(a.expires, clock_.Now() + absl::Seconds(10));
  clock_.Advance(absl::Seconds(9));
  EXPECT_EQ(claims_.Renew(ctx_, a, absl::Seconds(10))->expires, clock_.Now() + absl::Seconds(10));
  clock_.Advance(absl::Seconds(9));
  EXPECT_TRUE(claims_.Check(ctx_, a).ok());
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(claims_.Check(ctx_, a).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(claims_.Renew(ctx_, a, absl::Seconds(10)).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(MemoryClaimsTest, TheTokenFencesAnEarlierOwner) {
  const Claim a = Acquire("k", "a").value();
  clock_.Advance(absl::Seconds(10));
  const Claim b = Acquire("k", "b").value();
  EXPECT_GT(b.token, a.token);
  EXPECT_EQ(claims_.Check(ctx_, a).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(claims_.Release(ctx_, a).ok());
  EXPECT_TRUE(claims_.Check(ctx_, b).ok()) << "the release of a lost claim must not end another's";
}

TEST_F(MemoryClaimsTest, RefusesATimeThatIsNotPositive) {
  EXPECT_EQ(claims_.Acquire(ctx_, K("k"), "a", absl::ZeroDuration()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(MemoryClaimsTest, ManyExpiredClaimsLeaveRoomForLiveOnes) {
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(Acquire(std::to_string(i), "a").ok());
    clock_.Advance(absl::Seconds(1));
  }
  EXPECT_EQ(Acquire("4999", "b").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(Acquire("0", "b").ok());
}

TEST_F(MemoryClaimsTest, OfManyThreadsOneWins) {
  std::atomic<int> won = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 20; ++i) threads.emplace_back([&] { won += Acquire("k", "t").ok(); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(won, 1);
}

}  // namespace
}  // namespace kiln
