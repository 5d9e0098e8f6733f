#include "cache/singleflight.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <thread>
#include <vector>

#include "cache/fake_clock.h"
#include "cache/memory_claims.h"

namespace kiln {
namespace {

using Lead = SingleFlight::Lead;
using Outcome = SingleFlight::Outcome;
using Value = absl::StatusOr<std::string>;

// A flag that one thread sets and others wait for.
class Gate {
 public:
  void Open() { open_ = true; }
  bool IsOpen() const { return open_; }
  static void Nap() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }
  void Wait() const {
    while (!open_) Nap();
  }

 private:
  std::atomic<bool> open_ = false;
};

class SingleFlightTest : public ::testing::Test {
 protected:
  static Key K(const std::string& name) { return KeyBuilder(name).Build()->ToKey(); }

  // Runs on a thread of its own; Join() gives the outcome.
  struct Call {
    std::stop_source stop;
    std::vector<std::string> events;
    Outcome outcome{absl::UnknownError("not run"), false};
    std::thread thread;
    Outcome& Join() {
      thread.join();
      return outcome;
    }
  };

  Call& Start(SingleFlight::Work work, absl::Time deadline = absl::InfiniteFuture(), SingleFlight* flights = nullptr) {
    Call& call = calls_.emplace_back();
    RequestContext ctx;
    ctx.deadline = deadline;
    ctx.stop = call.stop.get_token();
    if (flights == nullptr) flights = &flights_;
    call.thread = std::thread([&call, ctx, work, flights] {
      call.outcome = flights->Run(ctx, K("k"), work, [&](const std::string& e) { call.events.push_back(e); });
    });
    return call;
  }

  template <typename Condition>
  void Until(Condition condition) {
    while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void UntilJoined(uint64_t n) {
    Until([&] { return flights_.Stats().joined >= n; });
  }

  static Value MustNotRun(Lead&) {
    ADD_FAILURE() << "the follower's work ran";
    return "";
  }

  FakeClock clock_;
  MemoryClaims claims_{&clock_};
  SingleFlightOptions options_{.claim_ttl = absl::Seconds(10), .poll = absl::Seconds(1), .max_event_bytes = 100};
  SingleFlight flights_{options_, &claims_, &clock_};
  std::deque<Call> calls_;
};

TEST_F(SingleFlightTest, AloneItJustRuns) {
  const Outcome out = flights_.Run(RequestContext(), K("k"), [](Lead&) -> Value { return "value"; });
  EXPECT_EQ(out.value.value(), "value");
  EXPECT_FALSE(out.joined);
  EXPECT_EQ(flights_.Stats().led, 1u);
  EXPECT_EQ(flights_.Stats().in_flight, 0u);
  EXPECT_TRUE(claims_.Acquire(RequestContext(), K("k"), "other", absl::Seconds(1)).ok()) << "the claim was kept";
}

TEST_F(SingleFlightTest, ManyCallersOneComputation) {
  std::atomic<int> runs = 0;
  Gate finish;
  const auto work = [&](Lead&) -> Value {
    ++runs;
    finish.Wait();
    return "value";
  };
  for (int i = 0; i < 20; ++i) Start(work);
  UntilJoined(19);
  EXPECT_EQ(flights_.Stats().in_flight, 1u);
  finish.Open();
  int joined = 0;
  for (Call& call : calls_) {
    EXPECT_EQ(call.Join().value.value(), "value");
    joined += call.outcome.joined;
  }
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(joined, 19);
  EXPECT_EQ(flights_.Stats().led, 1u);
}

TEST_F(SingleFlightTest, AnotherKeyIsAnotherFlight) {
  Gate finish;
  Call& first = Start([&](Lead&) -> Value {
    finish.Wait();
    return "1";
  });
  const Outcome out = flights_.Run(RequestContext(), K("k2"), [](Lead&) -> Value { return "2"; });
  EXPECT_EQ(out.value.value(), "2");
  finish.Open();
  EXPECT_EQ(first.Join().value.value(), "1");
}

TEST_F(SingleFlightTest, FollowersGetTheLeadersFailure) {
  Gate finish;
  Start([&](Lead&) -> Value {
    finish.Wait();
    return absl::InvalidArgumentError("node 7");
  });
  Until([&] { return flights_.Stats().led == 1; });
  Start(MustNotRun);
  UntilJoined(1);
  finish.Open();
  for (Call& call : calls_) EXPECT_EQ(call.Join().value.status(), absl::InvalidArgumentError("node 7"));
  EXPECT_EQ(flights_.Run(RequestContext(), K("k"), [](Lead&) -> Value { return "retry"; }).value.value(), "retry")
      << "a failure must not outlive its flight";
}

TEST_F(SingleFlightTest, LateFollowersSeeEventsFromTheStart) {
  Gate more, finish;
  Call& leader = Start([&](Lead& lead) -> Value {
    EXPECT_TRUE(lead.Emit("partitioned").ok());
    more.Wait();
    EXPECT_TRUE(lead.Emit("half").ok());
    finish.Wait();
    return "value";
  });
  Until([&] { return flights_.Stats().led == 1; });
  Call& early = Start(MustNotRun);
  UntilJoined(1);
  more.Open();
  Call& late = Start(MustNotRun);
  UntilJoined(2);
  finish.Open();
  const std::vector<std::string> all = {"partitioned", "half"};
  EXPECT_EQ(early.Join().value.value(), "value");
  EXPECT_EQ(late.Join().value.value(), "value");
  EXPECT_EQ(leader.Join().value.value(), "value");
  EXPECT_EQ(early.events, all);
  EXPECT_EQ(late.events, all);
  EXPECT_EQ(leader.events, all);
}

TEST_F(SingleFlightTest, FollowersSeeEventsBeforeTheEnd) {
  Gate seen;
  Call& leader = Start([&](Lead& lead) -> Value {
    EXPECT_TRUE(lead.Emit("partitioned").ok());
    seen.Wait();
    return "value";
  });
  Until([&] { return flights_.Stats().led == 1; });
  // The leader goes on only when the follower has been told.
  flights_.Run(RequestContext(), K("k"), MustNotRun, [&](const std::string&) { seen.Open(); });
  EXPECT_EQ(leader.Join().value.value(), "value");
}

TEST_F(SingleFlightTest, EventsAreBounded) {
  Start([&](Lead& lead) -> Value {
    EXPECT_TRUE(lead.Emit(std::string(60, 'x')).ok());
    EXPECT_EQ(lead.Emit(std::string(41, 'x')).code(), absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(lead.Emit(std::string(40, 'x')).ok());
    return "value";
  });
  EXPECT_EQ(calls_[0].Join().value.value(), "value");
  EXPECT_EQ(calls_[0].events.size(), 2u);
}

TEST_F(SingleFlightTest, AFollowersDeadlineIsItsOwn) {
  Gate finish;
  Call& leader = Start([&](Lead& lead) -> Value {
    while (!lead.stop().stop_requested() && lead.Heartbeat().ok() && !finish.IsOpen()) finish.Nap();
    return "value";
  });
  Until([&] { return flights_.Stats().led == 1; });
  Call& hasty = Start(MustNotRun, clock_.Now() + absl::Seconds(5));
  Call& patient = Start(MustNotRun);
  UntilJoined(2);
  clock_.Advance(absl::Seconds(5));
  EXPECT_EQ(hasty.Join().value.status().code(), absl::StatusCode::kDeadlineExceeded);
  finish.Open();
  EXPECT_EQ(patient.Join().value.value(), "value");
  EXPECT_EQ(leader.Join().value.value(), "value");
}

TEST_F(SingleFlightTest, AFollowerCanBeCancelled) {
  Gate finish;
  Call& leader = Start([&](Lead&) -> Value {
    finish.Wait();
    return "value";
  });
  Until([&] { return flights_.Stats().led == 1; });
  Call& follower = Start(MustNotRun);
  UntilJoined(1);
  follower.stop.request_stop();
  EXPECT_EQ(follower.Join().value.status().code(), absl::StatusCode::kCancelled);
  finish.Open();
  EXPECT_EQ(leader.Join().value.value(), "value");
}

TEST_F(SingleFlightTest, TheWorkOutlivesItsOwnCallerWhileOthersWait) {
  Gate finish;
  Call& leader = Start([&](Lead& lead) -> Value {
    finish.Wait();
    return lead.stop().stop_requested() ? Value(absl::CancelledError("")) : Value("value");
  });
  Until([&] { return flights_.Stats().led == 1; });
  Call& follower = Start(MustNotRun);
  UntilJoined(1);
  leader.stop.request_stop();
  finish.Open();
  EXPECT_EQ(follower.Join().value.value(), "value");
  leader.Join();
}

TEST_F(SingleFlightTest, WorkThatNobodyWantsIsToldToStop) {
  Call& leader = Start([&](Lead& lead) -> Value {
    Until([&] { return lead.stop().stop_requested(); });
    return absl::CancelledError("stopped");
  });
  Until([&] { return flights_.Stats().led == 1; });
  Call& follower = Start(MustNotRun);
  UntilJoined(1);
  leader.stop.request_stop();
  follower.stop.request_stop();
  EXPECT_EQ(leader.Join().value.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(follower.Join().value.status().code(), absl::StatusCode::kCancelled);
}

TEST_F(SingleFlightTest, ALeaderOutOfTimeLearnsItAtAHeartbeat) {
  Call& leader = Start(
      [&](Lead& lead) -> Value {
        while (!lead.stop().stop_requested()) EXPECT_TRUE(lead.Heartbeat().ok());
        return absl::DeadlineExceededError("stopped");
      },
      clock_.Now() + absl::Seconds(5));
  Until([&] { return flights_.Stats().led == 1; });
  clock_.Advance(absl::Seconds(5));
  EXPECT_EQ(leader.Join().value.status().code(), absl::StatusCode::kDeadlineExceeded);
}

// The follower comes between the request to stop and the leader's giving up.
TEST_F(SingleFlightTest, AFollowerOfOneThatGaveUpComputesAgain) {
  Gate give_up;
  Call& leader = Start([&](Lead& lead) -> Value {
    Until([&] { return lead.stop().stop_requested(); });
    give_up.Wait();
    return absl::CancelledError("stopped");
  });
  Until([&] { return flights_.Stats().led == 1; });
  leader.stop.request_stop();
  Call& follower = Start([](Lead&) -> Value { return "second"; });
  UntilJoined(1);
  give_up.Open();
  EXPECT_EQ(follower.Join().value.value(), "second");
  EXPECT_FALSE(follower.outcome.joined);
  EXPECT_EQ(leader.Join().value.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(flights_.Stats().taken_over, 1u);
}

TEST_F(SingleFlightTest, ASilentLeaderIsReplacedAndFenced) {
  Gate wake;
  std::atomic<uint64_t> first_token = 0, second_token = 0;
  Call& leader = Start([&](Lead& lead) -> Value {
    first_token = lead.claim().token;
    EXPECT_TRUE(lead.Emit("from the first").ok());
    wake.Wait();
    EXPECT_TRUE(lead.stop().stop_requested());
    EXPECT_EQ(lead.Heartbeat().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(lead.Emit("too late").code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(claims_.Check(RequestContext(), lead.claim()).code(), absl::StatusCode::kFailedPrecondition);
    return absl::CancelledError("lost");
  });
  Until([&] { return first_token != 0; });
  Gate finish;
  Call& second = Start([&](Lead& lead) -> Value {
    second_token = lead.claim().token;
    EXPECT_TRUE(lead.Emit("from the second").ok());
    wake.Open();
    finish.Wait();
    return "second";
  });
  UntilJoined(1);
  clock_.Advance(absl::Seconds(10));
  Until([&] { return second_token != 0; });
  EXPECT_GT(second_token, first_token);
  finish.Open();
  EXPECT_EQ(second.Join().value.value(), "second");
  EXPECT_EQ(leader.Join().value.value(), "second") << "the lost leader's caller waits like any other";
  EXPECT_TRUE(leader.outcome.joined);
  EXPECT_EQ(leader.events, (std::vector<std::string>{"from the first", "from the second"}));
}

TEST_F(SingleFlightTest, HeartbeatsKeepTheLead) {
  Gate finish;
  std::atomic<bool> beat = false;
  Call& leader = Start([&](Lead& lead) -> Value {
    while (!finish.IsOpen()) {
      EXPECT_TRUE(lead.Heartbeat().ok());
      beat = true;
      finish.Nap();
    }
    EXPECT_TRUE(claims_.Check(RequestContext(), lead.claim()).ok());
    return "value";
  });
  Until([&] { return flights_.Stats().led == 1; });
  Call& follower = Start(MustNotRun);
  UntilJoined(1);
  for (int i = 0; i < 10; ++i) {
    clock_.Advance(absl::Seconds(4));
    beat = false;
    Until([&] { return beat.load(); });
  }
  finish.Open();
  EXPECT_EQ(follower.Join().value.value(), "value");
  EXPECT_EQ(leader.Join().value.value(), "value");
  EXPECT_EQ(flights_.Stats().taken_over, 0u);
}

// Two processes are two SingleFlights over one Claims.
TEST_F(SingleFlightTest, AClaimHeldElsewhereIsWaitedFor) {
  SingleFlight elsewhere(options_, &claims_, &clock_);
  Gate finish;
  std::atomic<bool> holds = false;
  Call& other = Start(
      [&](Lead&) -> Value {
        holds = true;
        finish.Wait();
        return "other";
      },
      absl::InfiniteFuture(), &elsewhere);
  Until([&] { return holds.load(); });
  Call& here = Start([](Lead&) -> Value { return "here"; });
  Call& hasty = Start(MustNotRun, clock_.Now() + absl::Milliseconds(2500));
  UntilJoined(1);
  for (int i = 0; i < 3; ++i) clock_.Advance(absl::Seconds(1));
  hasty.thread.join();
  EXPECT_EQ(flights_.Stats().led, 0u);
  finish.Open();
  EXPECT_EQ(other.Join().value.value(), "other");
  Until([&] { return clock_.Advance(absl::Seconds(1)), flights_.Stats().led == 1; });
  EXPECT_EQ(here.Join().value.value(), "here");
}

class BrokenClaims final : public Claims {
 public:
  absl::StatusOr<Claim> Acquire(const RequestContext&, const Key&, const std::string&, absl::Duration) override {
    return absl::UnavailableError("down");
  }
  absl::StatusOr<Claim> Renew(const RequestContext&, const Claim&, absl::Duration) override {
    return absl::UnavailableError("down");
  }
  absl::Status Release(const RequestContext&, const Claim&) override { return absl::UnavailableError("down"); }
  absl::Status Check(const RequestContext&, const Claim&) override { return absl::UnavailableError("down"); }
};

TEST_F(SingleFlightTest, WithoutAClaimsServiceTheWorkGoesOn) {
  BrokenClaims broken;
  SingleFlight flights(options_, &broken, &clock_);
  const Outcome out = flights.Run(RequestContext(), K("k"), [](Lead& lead) -> Value {
    EXPECT_EQ(lead.claim().token, 0u);
    EXPECT_TRUE(lead.Emit("event").ok());
    return "value";
  });
  EXPECT_EQ(out.value.value(), "value");
}

// Random callers, cancellations and failures on few keys: everyone gets an answer, and nothing is left behind.
TEST_F(SingleFlightTest, Hammer) {
  SingleFlight flights({.claim_ttl = absl::Seconds(30)}, &claims_, Clock::Real());
  std::atomic<int> running[4] = {};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 20; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 50; ++i) {
        const unsigned k = (t * 7 + i * 13) % 4;
        std::stop_source stop;
        RequestContext ctx;
        ctx.stop = stop.get_token();
        if ((t + i) % 5 == 0) stop.request_stop();
        const Outcome out = flights.Run(ctx, K(std::to_string(k)), [&](Lead& lead) -> Value {
          EXPECT_EQ(++running[k], 1) << "two leaders of one key";
          EXPECT_TRUE(lead.Emit("event").ok());
          --running[k];
          if (lead.stop().stop_requested()) return absl::CancelledError("");
          return std::to_string(k);
        });
        if (out.value.ok()) EXPECT_EQ(*out.value, std::to_string(k));
        if (!out.value.ok()) EXPECT_EQ(out.value.status().code(), absl::StatusCode::kCancelled);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(flights.Stats().in_flight, 0u);
}

}  // namespace
}  // namespace kiln
