// What only a store on disk has to hold: restarts, other layouts, full disks, power failures.
#include "cache/rocksdb_store.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include <filesystem>
#include <fstream>

#include "cache/faulty_fs.h"
#include "cache/store_testing.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

class RocksDbStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<Store> Open(rocksdb::Env* env = nullptr) {
    absl::StatusOr<std::unique_ptr<Store>> store = OpenRocksDbStore(dir_.path(), options_, &report_, env);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  bool Has(Store& store, const std::string& name) {
    const Publication p = Entry(name);
    const absl::StatusOr<Record> record = store.GetRecord(ctx_, Id(name));
    return record.ok() && store.GetBlob(ctx_, p.blobs[0].digest).value_or("") == p.blobs[0].bytes;
  }
  // Some RocksDB database where the store would have its own.
  std::unique_ptr<rocksdb::DB> OpenRaw() {
    rocksdb::Options options;
    options.create_if_missing = true;
    rocksdb::DB* db = nullptr;
    fs::create_directories(dir_.path() + "/db");
    EXPECT_TRUE(rocksdb::DB::Open(options, dir_.path() + "/db", &db).ok());
    return std::unique_ptr<rocksdb::DB>(db);
  }

  TempDir dir_;
  StoreOptions options_;
  OpenReport report_;
  RequestContext ctx_;
};

TEST_F(RocksDbStoreTest, ARestartKeepsEverything) {
  std::unique_ptr<Store> store = Open();
  EXPECT_TRUE(report_.created);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(store->Publish(ctx_, Entry(std::to_string(i))).ok());
  EXPECT_TRUE(store->Lease(Job("j"), Id("3"), absl::Now() + absl::Hours(1)).ok());
  EXPECT_TRUE(store->RemoveRecord(ctx_, Id("7")).ok());
  const StoreStats before = store->Stats(ctx_).value();
  for (int restart = 0; restart < 3; ++restart) {
    store.reset();
    store = Open();
    EXPECT_FALSE(report_.created || report_.salvaged || report_.lost);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(Has(*store, std::to_string(i)), i != 7) << i;
    const StoreStats after = store->Stats(ctx_).value();
    EXPECT_EQ(after.bytes, before.bytes);
    EXPECT_EQ(after.blobs, before.blobs);
    EXPECT_EQ(after.leases, 1u);
  }
}

TEST_F(RocksDbStoreTest, TheDirectoryIsTheUsersOwn) {
  const std::string dir = dir_.path() + "/a/b";
  ASSERT_TRUE(OpenRocksDbStore(dir, options_).ok());
  EXPECT_EQ(fs::status(dir).permissions(), fs::perms::owner_all);
}

TEST_F(RocksDbStoreTest, OneOwnerAtATime) {
  std::unique_ptr<Store> store = Open();
  EXPECT_EQ(OpenRocksDbStore(dir_.path(), options_).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(store->Publish(ctx_, Entry("a")).ok());
  store.reset();
  EXPECT_TRUE(Has(*Open(), "a"));
}

TEST_F(RocksDbStoreTest, AnUnusableDirectoryIsAStatus) {
  std::ofstream(dir_.path() + "/file") << "x";
  EXPECT_EQ(OpenRocksDbStore(dir_.path() + "/file/cache", options_).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(RocksDbStoreTest, AnUnknownSchemaIsRefusedAndLeftAlone) {
  Open().reset();
  {
    rocksdb::DB* db = nullptr;
    std::vector<std::string> names;
    ASSERT_TRUE(rocksdb::DB::ListColumnFamilies({}, dir_.path() + "/db", &names).ok());
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    for (const std::string& name : names) families.emplace_back(name, rocksdb::ColumnFamilyOptions());
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    ASSERT_TRUE(rocksdb::DB::Open({}, dir_.path() + "/db", families, &handles, &db).ok());
    ASSERT_TRUE(db->Put({}, "schema", "17").ok());
    for (rocksdb::ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle);
    delete db;
  }
  for (int attempt = 0; attempt < 2; ++attempt) {
    const absl::Status s = OpenRocksDbStore(dir_.path(), options_).status();
    EXPECT_EQ(s, absl::FailedPreconditionError("cache: the store has schema version 17, this program knows 1"));
  }
}

TEST_F(RocksDbStoreTest, ANewerLayoutIsRefusedAndLeftAlone) {
  {
    std::unique_ptr<rocksdb::DB> db = OpenRaw();
    ASSERT_TRUE(db->Put({}, "schema", "18").ok());
    rocksdb::ColumnFamilyHandle* handle = nullptr;
    ASSERT_TRUE(db->CreateColumnFamily({}, "some new family", &handle).ok());
    db->DestroyColumnFamilyHandle(handle);
  }
  for (int attempt = 0; attempt < 2; ++attempt) {
    const absl::Status s = OpenRocksDbStore(dir_.path(), options_).status();
    EXPECT_EQ(s, absl::FailedPreconditionError("cache: the store has schema version 18, this program knows 1"));
  }
}

TEST_F(RocksDbStoreTest, AFullDiskIsAStatusAndPasses) {
  const auto faulty = std::make_shared<FaultyFs>();
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(faulty);
  std::unique_ptr<Store> store = Open(env.get());
  EXPECT_TRUE(store->Publish(ctx_, Entry("before")).ok());
  faulty->Set(FaultyFs::kFull);
  EXPECT_EQ(store->Publish(ctx_, Entry("during")).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Has(*store, "before")) << "reads go on";
  EXPECT_FALSE(Has(*store, "during"));
  EXPECT_FALSE(fs::exists(dir_.path() + "/db/LOG")) << "RocksDB aborts when it cannot write a line of it";
  faulty->Set(FaultyFs::kNone);
  for (int i = 0; i < 500 && !store->Maintain(ctx_).ok(); ++i) absl::SleepFor(absl::Milliseconds(20));
  EXPECT_TRUE(store->Publish(ctx_, Entry("after")).ok());
  store.reset();
  store = Open(env.get());
  EXPECT_FALSE(report_.salvaged || report_.lost);
  EXPECT_TRUE(Has(*store, "before") && Has(*store, "after"));
}

TEST_F(RocksDbStoreTest, ABrokenDiskIsAStatusUntilARestart) {
  const auto faulty = std::make_shared<FaultyFs>();
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(faulty);
  std::unique_ptr<Store> store = Open(env.get());
  EXPECT_TRUE(store->Publish(ctx_, Entry("before")).ok());
  faulty->Set(FaultyFs::kBroken);
  EXPECT_EQ(store->Publish(ctx_, Entry("during")).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Has(*store, "before")) << "reads go on";
  faulty->Set(FaultyFs::kNone);
  EXPECT_EQ(store->Maintain(ctx_).code(), absl::StatusCode::kUnavailable);
  store.reset();
  store = Open(env.get());
  EXPECT_FALSE(report_.salvaged || report_.lost);
  EXPECT_TRUE(Has(*store, "before"));
  EXPECT_TRUE(store->Publish(ctx_, Entry("after")).ok());
}

TEST_F(RocksDbStoreTest, OpeningOnAFullDiskIsAStatus) {
  const auto faulty = std::make_shared<FaultyFs>();
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(faulty);
  EXPECT_TRUE(Open(env.get())->Publish(ctx_, Entry("a")).ok());
  faulty->Set(FaultyFs::kFull);
  EXPECT_EQ(OpenRocksDbStore(dir_.path(), options_, &report_, env.get()).status().code(),
            absl::StatusCode::kResourceExhausted);
  faulty->Set(FaultyFs::kNone);
  EXPECT_TRUE(Has(*Open(env.get()), "a"));
}

TEST_F(RocksDbStoreTest, APowerFailureLosesNothingAcknowledged) {
  const auto faulty = std::make_shared<FaultyFs>();
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(faulty);
  for (int round = 0; round < 5; ++round) {
    std::unique_ptr<Store> store = Open(env.get());
    EXPECT_FALSE(report_.salvaged || report_.lost);
    for (int i = 0; i < round; ++i) EXPECT_TRUE(Has(*store, std::to_string(i))) << i << " in round " << round;
    EXPECT_TRUE(store->Publish(ctx_, Entry(std::to_string(round))).ok());
    store.reset();
    faulty->DropUnsynced();
  }
}

// The log, cut at every length, holds a prefix of the publications, and each of them whole.
TEST_F(RocksDbStoreTest, NoEntryIsTorn) {
  constexpr int kEntries = 4;
  {
    std::unique_ptr<Store> store = Open();
    for (int i = 0; i < kEntries; ++i) EXPECT_TRUE(store->Publish(ctx_, Entry(std::to_string(i))).ok());
  }
  const auto log = [](const std::string& dir) {
    for (const fs::directory_entry& file : fs::directory_iterator(dir + "/db")) {
      if (file.path().extension() == ".log" && file.file_size() > 0) return file.path();
    }
    return fs::path();
  };
  const uint64_t size = fs::file_size(log(dir_.path()));
  uint64_t whole = 0;
  for (uint64_t length = 0; length <= size; length += 1 + size / 60) {
    TempDir copy;
    fs::copy(dir_.path(), copy.path(), fs::copy_options::recursive);
    fs::resize_file(log(copy.path()), length);
    absl::StatusOr<std::unique_ptr<Store>> store = OpenRocksDbStore(copy.path(), options_, &report_);
    ASSERT_TRUE(store.ok()) << store.status();
    bool ended = false;
    for (int i = 0; i < kEntries; ++i) {
      const bool record = (*store)->GetRecord(ctx_, Id(std::to_string(i))).ok();
      EXPECT_EQ(record, Has(**store, std::to_string(i))) << "half of " << i << " at length " << length;
      EXPECT_FALSE(record && ended) << "a hole before " << i << " at length " << length;
      ended |= !record;
      whole += record;
    }
    EXPECT_EQ((*store)->Stats(ctx_)->incomplete, 0u);
  }
  EXPECT_GT(whole, 0u);
}

}  // namespace
}  // namespace kiln
