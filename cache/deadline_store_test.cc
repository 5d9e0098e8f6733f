#include "cache/deadline_store.h"

#include <gtest/gtest.h>

#include "cache/forwarding_store.h"
#include "cache/store_testing.h"

namespace kiln {
namespace {

// Notes the deadlines that reach it.
class Spy final : public ForwardingStore {
 public:
  Spy(std::vector<absl::Time>* seen, Clock* clock) : ForwardingStore(NewMemoryStore({.clock = clock})), seen_(seen) {}
  absl::StatusOr<Record> GetRecord(const RequestContext& ctx, const RecordId& id) override {
    seen_->push_back(ctx.deadline);
    return ForwardingStore::GetRecord(ctx, id);
  }

 private:
  std::vector<absl::Time>* const seen_;
};

class DeadlineStoreTest : public ::testing::Test {
 protected:
  absl::Status Get(absl::Time deadline) {
    ctx_.deadline = deadline;
    return store_->GetRecord(ctx_, Id("a")).status();
  }

  FakeClock clock_;
  std::vector<absl::Time> seen_;
  std::unique_ptr<Store> store_ = NewDeadlineStore(std::make_unique<Spy>(&seen_, &clock_), absl::Seconds(10), &clock_);
  RequestContext ctx_;
};

TEST_F(DeadlineStoreTest, ADistantDeadlineComesNearer) {
  EXPECT_TRUE(absl::IsNotFound(Get(absl::InfiniteFuture())));
  EXPECT_TRUE(absl::IsNotFound(Get(clock_.Now() + absl::Seconds(11))));
  EXPECT_EQ(seen_, std::vector(2, clock_.Now() + absl::Seconds(10)));
}

TEST_F(DeadlineStoreTest, ANearOneStays) {
  Get(clock_.Now() + absl::Seconds(9)).IgnoreError();
  EXPECT_EQ(seen_, std::vector{clock_.Now() + absl::Seconds(9)});
}

TEST_F(DeadlineStoreTest, AnEndedContextReachesNothing) {
  EXPECT_EQ(Get(clock_.Now()).code(), absl::StatusCode::kDeadlineExceeded);
  std::stop_source stop;
  stop.request_stop();
  ctx_.stop = stop.get_token();
  EXPECT_EQ(Get(absl::InfiniteFuture()).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(store_->Publish(ctx_, Entry("a")).code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(seen_.empty());
}

}  // namespace
}  // namespace kiln
