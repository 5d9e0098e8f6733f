#include "cache/metrics_store.h"

#include <gtest/gtest.h>

#include "cache/error_store.h"
#include "cache/store_testing.h"

namespace kiln {
namespace {

class Recorder final : public StoreMetrics {
 public:
  void Called(std::string_view op, absl::StatusCode code, absl::Duration took) override {
    lines.push_back(std::string(op) + " " + absl::StatusCodeToString(code) + " " + absl::FormatDuration(took));
  }
  void Moved(std::string_view op, uint64_t bytes) override {
    lines.push_back(std::string(op) + " moved " + std::to_string(bytes));
  }
  std::vector<std::string> lines;
};

TEST(MetricsStore, CountsTimesAndBytes) {
  FakeClock clock;
  Recorder recorder;
  Faults slow;
  slow.fail = [&](std::string_view) {
    clock.Advance(absl::Seconds(2));
    return absl::OkStatus();
  };
  const std::unique_ptr<Store> store = NewMetricsStore(NewErrorStore(NewMemoryStore({}), slow), &recorder, &clock);
  const RequestContext ctx;
  EXPECT_TRUE(store->Publish(ctx, Entry("a")).ok());
  EXPECT_TRUE(store->GetRecord(ctx, Id("a")).ok());
  EXPECT_FALSE(store->GetRecord(ctx, Id("b")).ok());
  EXPECT_TRUE(store->GetBlob(ctx, BlobOf("a").digest).ok());
  EXPECT_EQ(recorder.lines, (std::vector<std::string>{"Publish OK 2s", "Publish moved 100", "GetRecord OK 2s",
                                                      "GetRecord NOT_FOUND 2s", "GetBlob OK 2s", "GetBlob moved 100"}));
}

}  // namespace
}  // namespace kiln
