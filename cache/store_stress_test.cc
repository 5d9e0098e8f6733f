// Twenty threads on one store. What is checked: every answer is either right or a miss, and the books balance at the
// end.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "cache/store_testing.h"

namespace kiln {
namespace {

constexpr int kThreads = 20;
constexpr int kNames = 40;

class StoreStressTest : public ::testing::TestWithParam<TestStore::Kind> {};

// Record n names two blobs, one of them shared with its neighbour.
Publication Nth(int n) {
  const Blob own = BlobOf("own " + std::to_string(n), 5000), shared = BlobOf("shared " + std::to_string(n / 2), 300);
  return {{own, shared}, {MakeRecord(Id(std::to_string(n)), std::to_string(n), {own.digest, shared.digest})}};
}

void Look(Store& store, int n, std::atomic<int>& hits) {
  const RequestContext ctx;
  const absl::StatusOr<Record> record = store.GetRecord(ctx, Id(std::to_string(n)));
  if (!record.ok()) {
    EXPECT_EQ(record.status().code(), absl::StatusCode::kNotFound) << record.status();
    return;
  }
  EXPECT_EQ(record->value, std::to_string(n));
  for (const Digest& d : record->blobs) {
    const absl::StatusOr<std::string> blob = store.GetBlob(ctx, d);
    if (blob.ok()) EXPECT_EQ(Digest::Of(*blob), d);
    if (!blob.ok()) EXPECT_EQ(blob.status().code(), absl::StatusCode::kNotFound) << blob.status();
    hits += blob.ok();
  }
}

void Publish(Store& store, int n) {
  const absl::Status s = store.Publish(RequestContext(), Nth(n));
  EXPECT_TRUE(s.ok() || absl::IsResourceExhausted(s)) << s;
}

void Work(Store& store, unsigned seed, int steps, std::atomic<int>& hits) {
  std::mt19937 random(seed);
  const RequestContext job = Job(std::to_string(seed));
  for (int i = 0; i < steps; ++i) {
    const int n = static_cast<int>(random() % kNames);
    switch (random() % 16) {
      case 0:
      case 1:
      case 2:
        Publish(store, n);
        break;
      case 3:
        EXPECT_TRUE(store.RemoveRecord(job, Id(std::to_string(n))).ok());
        break;
      case 4:
        EXPECT_TRUE(store.List(job, {.limit = 5}).ok());
        break;
      case 5:
        EXPECT_TRUE(store.Maintain(job).ok());
        break;
      case 6:
        store.Lease(job, Id(std::to_string(n)), absl::Now() + absl::Milliseconds(10)).IgnoreError();
        break;
      case 7:
        EXPECT_TRUE(store.Stats(job).ok());
        break;
      case 8:
        EXPECT_TRUE(store.ReleaseLeases(job).ok());
        break;
      case 9:
        EXPECT_TRUE(store.RemoveBlob(job, BlobOf("shared " + std::to_string(n / 2), 300).digest).ok());
        break;
      default:
        Look(store, n, hits);
    }
  }
}

TEST_P(StoreStressTest, Hammer) {
  StoreOptions options;
  options.max_bytes = 100000;  // half of the entries
  TestStore store(GetParam(), options);
  std::atomic<int> hits = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) threads.emplace_back([&, t] { Work(*store, t, 100, hits); });
  for (std::thread& t : threads) t.join();
  EXPECT_GT(hits, 0);
  const StoreStats before = store->Stats(RequestContext()).value();
  EXPECT_EQ(before.corrupt, 0u);
  EXPECT_LE(before.bytes, options.max_bytes);
  EXPECT_TRUE(store->ReleaseLeases(RequestContext()).ok());
  store.Reopen();
  const StoreStats after = store->Stats(RequestContext()).value();
  EXPECT_EQ(after.bytes, before.bytes) << "the books and the disk disagree";
  EXPECT_EQ(after.blobs, before.blobs);
  for (int n = 0; n < kNames; ++n) EXPECT_TRUE(store->RemoveRecord(RequestContext(), Id(std::to_string(n))).ok());
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreStressTest, ::testing::Values(TestStore::kMemory, TestStore::kRocksDb),
                         [](const auto& info) { return info.param == TestStore::kMemory ? "Memory" : "RocksDb"; });

}  // namespace
}  // namespace kiln
