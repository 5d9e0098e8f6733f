#include "cache/build_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "cache/store_testing.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

class CountingMetrics final : public StoreMetrics {
 public:
  void Called(std::string_view, absl::StatusCode, absl::Duration) override { ++calls; }
  void Moved(std::string_view, uint64_t) override {}
  std::atomic<int> calls = 0;
};

class BuildStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<Store> Build(OpenReport* report = nullptr) {
    absl::StatusOr<std::unique_ptr<Store>> store = BuildStore(config_, report);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  TempDir dir_;
  CountingMetrics metrics_;
  StoreConfig config_;
  RequestContext ctx_;
};

TEST_F(BuildStoreTest, EveryLayerIsThere) {
  config_.directory = dir_.path();
  config_.metrics = &metrics_;
  const std::unique_ptr<Store> store = Build();
  EXPECT_TRUE(store->Publish(ctx_, Entry("a", 100000)).ok());
  EXPECT_EQ(metrics_.calls, 1);
  EXPECT_LT(store->Stats(ctx_)->bytes, 1000u) << "not compressed";
  Blob lie = MakeBlob("x");
  lie.bytes = "y";
  EXPECT_EQ(store->Publish(ctx_, {{lie}, {}}).code(), absl::StatusCode::kInvalidArgument) << "not verified";
  EXPECT_EQ(store->GetBlob(ctx_, BlobOf("a", 100000).digest).value(), BlobOf("a", 100000).bytes);
}

TEST_F(BuildStoreTest, WithoutADirectoryItIsInMemory) {
  OpenReport report;
  const std::unique_ptr<Store> store = Build(&report);
  EXPECT_TRUE(report.created);
  EXPECT_TRUE(store->Publish(ctx_, Entry("a")).ok());
  EXPECT_TRUE(store->GetRecord(ctx_, Id("a")).ok());
}

TEST_F(BuildStoreTest, AnUnusableDirectoryIsAStatus) {
  config_.directory = "/proc/kiln";
  EXPECT_EQ(BuildStore(config_).status().code(), absl::StatusCode::kUnavailable);
}

// Flips one bit of the stored contents, in whatever file they are.
void FlipABit(const std::string& dir, const std::string& contents) {
  for (const fs::directory_entry& file : fs::recursive_directory_iterator(dir)) {
    if (!file.is_regular_file()) continue;
    std::fstream f(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(f), {}};
    const size_t at = bytes.find(contents);
    if (at == std::string::npos) continue;
    f.clear();
    f.seekp(static_cast<std::streamoff>(at + contents.size() / 2));
    f.put(static_cast<char>(contents[contents.size() / 2] ^ 4));
  }
}

TEST_F(BuildStoreTest, ABitFlippedOnDiskIsAMissRemovedAndCounted) {
  config_.directory = dir_.path();
  config_.compression.level = 0;  // so that the test finds the bytes
  config_.memory_bytes = 0;
  for (size_t size : {200u, 20000u}) {  // in a table, in a blob file
    const std::string name = "flipped " + std::to_string(size);
    const Publication p = Entry(name, size);
    EXPECT_TRUE(Build()->Publish(ctx_, p).ok());
    Build().reset();  // moves it out of the log
    FlipABit(dir_.path(), p.blobs[0].bytes);
    {
      const std::unique_ptr<Store> store = Build();
      EXPECT_EQ(store->GetRecord(ctx_, Id(name)).status().code(), absl::StatusCode::kNotFound);
      EXPECT_EQ(store->GetBlob(ctx_, p.blobs[0].digest).status().code(), absl::StatusCode::kNotFound);
      EXPECT_EQ(store->Stats(ctx_)->corrupt, 1u);
      EXPECT_EQ(store->Stats(ctx_)->records[Table::kActions], 0u);
      EXPECT_TRUE(store->Publish(ctx_, p).ok());
      EXPECT_TRUE(store->GetRecord(ctx_, Id(name)).ok());
    }
    const std::unique_ptr<Store> store = Build();
    EXPECT_EQ(store->GetBlob(ctx_, p.blobs[0].digest).value(), p.blobs[0].bytes);
    EXPECT_TRUE(store->RemoveRecord(ctx_, Id(name)).ok());
  }
}

TEST_F(BuildStoreTest, Hammer) {
  config_.directory = dir_.path();
  config_.options.max_bytes = 20000;
  config_.memory_bytes = 20000;
  config_.metrics = &metrics_;
  const std::unique_ptr<Store> store = Build();
  std::vector<std::thread> threads;
  for (int t = 0; t < 20; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 30; ++i) {
        const std::string name = std::to_string((t * 31 + i * 7) % 100);
        const absl::StatusOr<Record> record = store->GetRecord(ctx_, Id(name));
        if (record.ok()) {
          const absl::StatusOr<std::string> blob = store->GetBlob(ctx_, record->blobs[0]);
          if (blob.ok()) EXPECT_EQ(*blob, BlobOf(name, 2000).bytes);
          if (!blob.ok()) EXPECT_TRUE(absl::IsNotFound(blob.status())) << blob.status();
        } else {
          EXPECT_TRUE(absl::IsNotFound(record.status())) << record.status();
          EXPECT_TRUE(store->Publish(ctx_, Entry(name, 2000)).ok());
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(store->Stats(ctx_)->corrupt, 0u);
  EXPECT_LE(store->Stats(ctx_)->bytes, config_.options.max_bytes);
}

}  // namespace
}  // namespace kiln
