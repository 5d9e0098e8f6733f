#include "cache/rocksdb_format.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kiln {
namespace {

Key K(const std::string& name) { return KeyBuilder(name).Build()->ToKey(); }

Record Sample() {
  Record r;
  r.id = {.table = Table::kVariants, .ns = "uid:1000", .key = K("key"), .item = K("item")};
  r.value = std::string("v\0v", 3);
  r.blobs = {Digest::Of("1"), Digest::Of("22")};
  r.created = absl::FromUnixMicros(1234567890);
  return r;
}

TEST(RocksDbFormat, RecordsRoundTrip) {
  Record r = Sample();
  EXPECT_EQ(DecodeRecord(r.id, EncodeRecord(r)).value(), r);
  r.expires = absl::FromUnixMicros(-1);
  r.blobs.clear();
  EXPECT_EQ(DecodeRecord(r.id, EncodeRecord(r)).value(), r);
}

TEST(RocksDbFormat, EveryBitFlipAndTruncationIsSeen) {
  const Record r = Sample();
  const std::string good = EncodeRecord(r);
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(DecodeRecord(r.id, bad).status().code(), absl::StatusCode::kDataLoss);
  }
  for (size_t n = 0; n < good.size(); ++n) {
    EXPECT_EQ(DecodeRecord(r.id, std::string_view(good).substr(0, n)).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST(RocksDbFormat, ARecordUnderAnothersIdIsSeen) {
  const Record r = Sample();
  RecordId other = r.id;
  other.item = K("other");
  EXPECT_EQ(DecodeRecord(other, EncodeRecord(r)).status().code(), absl::StatusCode::kDataLoss);
  other = r.id;
  other.table = Table::kActions;
  EXPECT_EQ(DecodeRecord(other, EncodeRecord(r)).status().code(), absl::StatusCode::kDataLoss);
}

TEST(RocksDbFormat, KeysOrderAsIdsDo) {
  std::vector<RecordId> ids;
  for (const char* ns : {"", "a", "a!", "ab", "b"}) {
    for (const char* key : {"k1", "k2"}) {
      for (const char* item : {"i1", "i2"})
        ids.push_back({.table = Table::kJobs, .ns = ns, .key = K(key), .item = K(item)});
    }
  }
  std::vector<RecordId> by_key = ids;
  std::sort(ids.begin(), ids.end());
  std::sort(by_key.begin(), by_key.end(),
            [](const RecordId& a, const RecordId& b) { return EncodeRecordKey(a) < EncodeRecordKey(b); });
  EXPECT_EQ(ids, by_key);
  for (const RecordId& id : ids) EXPECT_EQ(DecodeRecordKey(Table::kJobs, EncodeRecordKey(id)), id);
}

TEST(RocksDbFormat, OtherKeysRoundTrip) {
  const RecordId id = Sample().id;
  EXPECT_EQ(DecodeAccessKey(EncodeAccessKey(id)), id);
  const std::optional<LeaseEntry> lease = DecodeLeaseKey(EncodeLeaseKey({"job", id, absl::InfinitePast()}));
  ASSERT_TRUE(lease.has_value());
  EXPECT_EQ(lease->holder, "job");
  EXPECT_EQ(lease->id, id);
  EXPECT_EQ(DecodeBlobKey(EncodeBlobKey(Digest::Of("x"))), Digest::Of("x"));
  EXPECT_EQ(DecodeTime(EncodeTime(absl::InfiniteFuture())), absl::InfiniteFuture());
  EXPECT_EQ(DecodeSize(EncodeSize(uint64_t{1} << 40)), uint64_t{1} << 40);
}

TEST(RocksDbFormat, BadKeysAreRefused) {
  for (const std::string& bad : {std::string(), std::string("x"), std::string(64, '\0'), std::string(200, 'k')}) {
    EXPECT_FALSE(DecodeRecordKey(Table::kJobs, bad).has_value());
    EXPECT_FALSE(DecodeAccessKey("\x7f" + bad).has_value());
    EXPECT_FALSE(DecodeLeaseKey(bad).has_value());
    EXPECT_FALSE(DecodeBlobKey(bad).has_value());
    EXPECT_FALSE(DecodeTime(bad).has_value());
  }
}

}  // namespace
}  // namespace kiln
