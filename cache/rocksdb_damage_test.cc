// Damaged files: whatever byte is wrong, whatever file is short or gone, the store opens, gives what was stored or
// nothing, and takes new entries.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "cache/store_testing.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr int kEntries = 12;

// Every other blob is large enough for a blob file.
Publication Nth(int n) { return Entry(std::to_string(n), n % 2 == 0 ? 200 : 6000); }

class RocksDbDamageTest : public ::testing::TestWithParam<unsigned> {
 protected:
  // A store whose entries are in tables and blob files, not in the log, but for the last few.
  static const TempDir& Original() {
    static const TempDir dir;
    static const bool filled = [] {
      for (int n = 0; n < kEntries; ++n) {
        if (n == 0 || n == kEntries / 2 || n == kEntries - 2) store_ = nullptr;
        if (store_ == nullptr) store_ = OpenRocksDbStore(dir.path(), StoreOptions()).value();
        EXPECT_TRUE(store_->Publish(RequestContext(), Nth(n)).ok());
      }
      store_ = nullptr;
      return true;
    }();
    EXPECT_TRUE(filled);
    return dir;
  }

  std::vector<fs::path> Files(const std::string& dir) {
    std::vector<fs::path> out;
    for (const fs::directory_entry& file : fs::directory_iterator(dir + "/db")) {
      const std::string name = file.path().filename();
      if (name.starts_with("LOG") || name == "LOCK" || file.file_size() == 0) continue;
      out.push_back(file.path());
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  void Damage(const fs::path& file) {
    const uint64_t size = fs::file_size(file);
    const unsigned how = random_() % 10;
    what_ = file.filename().string();
    if (how == 0) {
      fs::remove(file);
      what_ += " removed";
    } else if (how == 1) {
      fs::resize_file(file, random_() % size);
      what_ += " cut";
    } else {
      std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
      for (int flips = 1 + static_cast<int>(random_() % 3); flips > 0; --flips) {
        const auto at = static_cast<std::streamoff>(random_() % size);
        f.seekg(at);
        const int byte = f.get();
        f.seekp(at);
        f.put(static_cast<char>(byte ^ (1 << random_() % 8)));
        what_ += " flipped at " + std::to_string(at);
      }
    }
  }

  // How many entries are there; each must be whole and right.
  int Check(Store& store) {
    int found = 0;
    for (int n = 0; n < kEntries; ++n) {
      const Publication want = Nth(n);
      const absl::StatusOr<Record> record = store.GetRecord(RequestContext(), want.records[0].id);
      if (!record.ok()) {
        EXPECT_EQ(record.status().code(), absl::StatusCode::kNotFound) << record.status();
        continue;
      }
      EXPECT_EQ(record->value, want.records[0].value);
      const absl::StatusOr<std::string> blob = store.GetBlob(RequestContext(), want.blobs[0].digest);
      if (blob.ok()) {
        EXPECT_EQ(*blob, want.blobs[0].bytes);
        ++found;
      } else {
        EXPECT_TRUE(absl::IsNotFound(blob.status()) || absl::IsDataLoss(blob.status())) << blob.status();
        EXPECT_TRUE(store.RemoveBlob(RequestContext(), want.blobs[0].digest).ok());
      }
    }
    return found;
  }

  std::mt19937 random_{GetParam()};
  std::string what_;
  static std::unique_ptr<Store> store_;
};

std::unique_ptr<Store> RocksDbDamageTest::store_;

TEST_P(RocksDbDamageTest, IsAMissAndIsRepaired) {
  TempDir dir;
  fs::copy(Original().path(), dir.path(), fs::copy_options::recursive);
  const std::vector<fs::path> files = Files(dir.path());
  Damage(files[random_() % files.size()]);
  SCOPED_TRACE(what_);
  OpenReport report;
  absl::StatusOr<std::unique_ptr<Store>> store = OpenRocksDbStore(dir.path(), StoreOptions(), &report);
  ASSERT_TRUE(store.ok()) << store.status();
  const int found = Check(**store);
  RecordProperty("found", found);
  for (int n = 0; n < kEntries; ++n) EXPECT_TRUE((*store)->Publish(RequestContext(), Nth(n)).ok());
  EXPECT_EQ(Check(**store), kEntries);
  store->reset();
  store = OpenRocksDbStore(dir.path(), StoreOptions(), &report);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(Check(**store), kEntries) << "the repair did not last";
}

// Every opening adds a file to each tree, so that RocksDB soon merges the damaged one with others, and stops taking
// writes when it fails.
TEST_P(RocksDbDamageTest, FoundLaterIsRepairedAtTheNextOpening) {
  TempDir dir;
  fs::copy(Original().path(), dir.path(), fs::copy_options::recursive);
  std::vector<fs::path> files = Files(dir.path());
  std::erase_if(files, [](const fs::path& f) { return f.extension() != ".sst" && f.extension() != ".blob"; });
  Damage(files[random_() % files.size()]);
  SCOPED_TRACE(what_);
  int failed = 0, salvaged = 0;
  bool last = false;
  for (int cycle = 0; cycle < 12; ++cycle) {
    OpenReport report;
    const std::unique_ptr<Store> store = OpenRocksDbStore(dir.path(), StoreOptions(), &report).value();
    salvaged += report.salvaged || report.lost;
    last = store->Publish(RequestContext(), Nth(100 + cycle)).ok();
    last = store->Maintain(RequestContext()).ok() && last;
    failed += !last;
  }
  EXPECT_TRUE(last) << failed << " of 12 openings took no writes";
  EXPECT_LE(failed, 2);
  EXPECT_LE(salvaged, 2);
  RecordProperty("failed", failed);
  RecordProperty("salvaged", salvaged);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RocksDbDamageTest, ::testing::Range(0u, 16u));

}  // namespace
}  // namespace kiln
