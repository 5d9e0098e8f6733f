#include "server/lifecycle.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "cache/fake_clock.h"
#include "server/status.h"

namespace kiln {
namespace {

TEST(Lifecycle, DrainingRefusesCompilesWithAHint) {
  FakeClock clock;
  Lifecycle life(&clock);
  int drained = 0;
  life.SetOnDrain([&] { ++drained; });
  EXPECT_EQ(life.StateName(), "serving");
  EXPECT_TRUE(life.EnterCompile().ok());
  life.Drain();
  life.Drain();
  EXPECT_EQ(drained, 1);
  EXPECT_EQ(life.StateName(), "draining");
  const absl::Status s = life.EnterCompile().status();
  EXPECT_EQ(s.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(RetryAfter(s), absl::Seconds(5));
}

TEST(Lifecycle, WaitsForCompilesInFlight) {
  FakeClock clock;
  Lifecycle life(&clock);
  std::optional<Lifecycle::Scope> compile = life.EnterCompile().value();
  EXPECT_EQ(life.compiles_in_flight(), 1);
  EXPECT_FALSE(life.WaitForCompiles(clock.Now()));
  std::atomic<bool> idle = false;
  std::thread waiter([&] { idle = life.WaitForCompiles(clock.Now() + absl::Hours(1)); });
  compile.reset();
  waiter.join();
  EXPECT_TRUE(idle);
  EXPECT_EQ(life.compiles_in_flight(), 0);
}

TEST(Lifecycle, WaitsForCalls) {
  FakeClock clock;
  Lifecycle life(&clock);
  std::optional<Lifecycle::Scope> call = life.EnterCall();
  EXPECT_FALSE(life.WaitForCalls(clock.Now()));
  call.reset();
  EXPECT_TRUE(life.WaitForCalls(clock.Now()));
}

TEST(Lifecycle, WaitingIsGivenUp) {
  FakeClock clock;
  Lifecycle life(&clock);
  const Lifecycle::Scope compile = life.EnterCompile().value();
  EXPECT_FALSE(life.WaitForCompiles(absl::InfiniteFuture(), [] { return true; }));
}

TEST(Lifecycle, LeavesWhenIdle) {
  FakeClock clock;
  Lifecycle life(&clock);
  std::optional<Lifecycle::Scope> call = life.EnterCall();
  std::atomic<bool> left = false;
  std::thread waiter([&] {
    life.WaitForExit(absl::Seconds(60));
    left = true;
  });
  clock.Advance(absl::Seconds(600));
  EXPECT_FALSE(left);  // a call is in progress, however long
  call.reset();        // the minute begins here
  clock.Advance(absl::Seconds(59));
  EXPECT_FALSE(left);
  clock.Advance(absl::Seconds(1));
  waiter.join();
  EXPECT_TRUE(left);
}

TEST(Lifecycle, LeavesWhenAsked) {
  FakeClock clock;
  Lifecycle life(&clock);
  std::thread waiter([&] { life.WaitForExit(absl::ZeroDuration()); });
  life.RequestExit();
  waiter.join();
  EXPECT_TRUE(life.draining());
}

}  // namespace
}  // namespace kiln
