#include "server/status.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(Status, CrashedIsTold) {
  EXPECT_TRUE(IsCrashed(CrashedError(absl::StatusCode::kInternal, "died")));
  EXPECT_FALSE(IsCrashed(absl::InternalError("died")));
  EXPECT_FALSE(IsCrashed(absl::OkStatus()));
}

TEST(Status, RefusalCarriesItsWait) {
  const absl::Status s = RefusedError(absl::StatusCode::kUnavailable, "draining", absl::Milliseconds(1500));
  EXPECT_EQ(RetryAfter(s), absl::Milliseconds(1500));
  EXPECT_EQ(s.message(), "draining; try again after 1.5s");
  EXPECT_EQ(RetryAfter(absl::UnavailableError("x")), std::nullopt);
}

TEST(Status, NodeAndReproducer) {
  absl::Status s = absl::InvalidArgumentError("bad");
  EXPECT_EQ(NodeOfStatus(s), -1);
  EXPECT_EQ(ReproducerOf(s), "");
  SetNode(s, 7);
  SetReproducer(s, "ab");
  const absl::Status copy = s;
  EXPECT_EQ(NodeOfStatus(copy), 7);
  EXPECT_EQ(ReproducerOf(copy), "ab");
}

}  // namespace
}  // namespace kiln
