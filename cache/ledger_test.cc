#include "cache/ledger.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace kiln {
namespace {

Digest D(int i) { return Digest::Of(std::to_string(i)); }
RecordId R(int i) {
  return {.table = Table::kActions, .ns = "", .key = KeyBuilder(std::to_string(i)).Build()->ToKey(), .item = {}};
}

// What a ledger must agree with, computed from nothing but the changes it made.
struct Model {
  std::map<RecordId, NewRecord> records;
  std::map<Digest, uint64_t> blobs;

  void Apply(const Change& change) {
    for (const NewBlob& b : change.add_blobs) EXPECT_TRUE(blobs.emplace(b.digest, b.bytes).second) << "added twice";
    for (const NewRecord& r : change.put_records) records[r.id] = r;
    for (const auto& [id, why] : change.remove_records) EXPECT_EQ(records.erase(id), 1u);
    for (const Digest& d : change.remove_blobs) EXPECT_EQ(blobs.erase(d), 1u) << "removed twice";
    for (const auto& [id, r] : records) {
      for (const Digest& d : r.blobs) EXPECT_TRUE(blobs.contains(d)) << "a record names a blob that is gone";
    }
  }
  uint64_t Bytes() const {
    uint64_t sum = 0;
    for (const auto& [d, bytes] : blobs) sum += bytes;
    for (const auto& [id, r] : records) sum += r.bytes;
    return sum;
  }
};

// Random publications, removals, touches and leases under a cap. The invariants hold after each, and a leased record is
// there as long as its lease, unless it was removed by name.
TEST(Ledger, KeepsItsInvariants) {
  std::mt19937 random(1);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Ledger ledger({.max_bytes = 2000, .max_idle = absl::Seconds(500), .orphan_grace = absl::Seconds(20)});
  Model model;
  std::map<RecordId, absl::Time> leases;
  absl::Time now = absl::FromUnixSeconds(1000);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    now += absl::Seconds(pick(3));
    const RecordId id = R(pick(30));
    Change change;
    switch (pick(6)) {
      case 0:
      case 1: {
        std::vector<NewBlob> blobs;
        NewRecord record{.id = id, .bytes = static_cast<uint64_t>(10 + pick(50))};
        if (pick(4) == 0) record.expires = now + absl::Seconds(pick(100));
        for (int n = pick(4); n >= 0; --n) blobs.push_back({D(pick(40)), static_cast<uint64_t>(pick(200))});
        for (const NewBlob& b : blobs) {
          if (pick(5) > 0) record.blobs.push_back(b.digest);
        }
        const absl::StatusOr<Change> plan = ledger.PlanPublish(blobs, {record}, now);
        refused += absl::IsResourceExhausted(plan.status());
        if (plan.ok()) change = *plan;
        break;
      }
      case 2:
        change = ledger.PlanRemove(id, Why::kAsked, now);
        leases.erase(id);
        break;
      case 3:
        change = ledger.PlanMaintain(now);
        break;
      case 4:
        EXPECT_EQ(ledger.Touch(id, now), model.records.contains(id));
        break;
      case 5:
        if (pick(10) == 0) change = ledger.PlanRemoveBlob(D(pick(40)), now);
        if (pick(3) == 0 && change.remove_blobs.empty() && ledger.HasRecord(id)) {
          leases[id] = now + absl::Seconds(pick(500));
          ledger.SetLease("job", id, leases[id]);
        }
        break;
    }
    for (const auto& [gone, why] : change.remove_records) {
      const bool leased = leases.contains(gone) && leases[gone] > now;
      EXPECT_FALSE(leased && why == Why::kEvicted) << "evicted under lease";
      leases.erase(gone);
    }
    ledger.Apply(change, now);
    model.Apply(change);
    ASSERT_EQ(ledger.bytes(), model.Bytes()) << i;
    ASSERT_EQ(ledger.blob_count(), model.blobs.size());
    ASSERT_EQ(ledger.record_count(Table::kActions), model.records.size());
    ASSERT_LE(ledger.bytes(), 2000u);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(refused, 0) << "leases never filled the cap";
  EXPECT_GT(model.records.size(), 2u);
}

TEST(Ledger, ListIsOneRangeForOneKey) {
  Ledger ledger({});
  const absl::Time now = absl::FromUnixSeconds(1);
  Change change;
  for (int i = 0; i < 5; ++i) {
    for (const char* ns : {"", "a", "b"}) {
      RecordId id = R(i);
      id.ns = ns;
      change.put_records.push_back({.id = id});
    }
  }
  ledger.Apply(change, now);
  const std::vector<RecordId> mine =
      ledger.List({.table = Table::kActions, .ns = "a", .key = R(3).key, .after = {}, .limit = 10}, now);
  ASSERT_EQ(mine.size(), 2u);
  EXPECT_EQ(mine[0].ns, "");
  EXPECT_EQ(mine[1].ns, "a");
  EXPECT_EQ(ledger.List({.table = Table::kActions, .ns = {}, .key = R(3).key, .after = {}, .limit = 10}, now).size(),
            3u);
  EXPECT_EQ(ledger.List({.table = Table::kActions, .ns = "a", .key = R(3).key, .after = mine[0], .limit = 10}, now),
            std::vector<RecordId>{mine[1]});
  EXPECT_EQ(ledger.List({.table = Table::kActions, .ns = "b", .key = {}, .after = {}, .limit = 7}, now).size(), 7u);
}

TEST(Ledger, LeasesOfOneHolder) {
  Ledger ledger({});
  const absl::Time now = absl::FromUnixSeconds(1), later = now + absl::Seconds(1);
  ledger.Apply({.put_records = {{.id = R(1)}, {.id = R(2)}}}, now);
  ledger.SetLease("a", R(1), later);
  ledger.SetLease("b", R(1), later);
  ledger.SetLease("a", R(2), now);
  EXPECT_EQ(ledger.lease_count(now), 2u);
  EXPECT_EQ(ledger.LeasedUntil("b", R(1)), later);
  EXPECT_EQ(ledger.LeasedUntil("b", R(2)), absl::InfinitePast());
  EXPECT_EQ(ledger.LeasedUntil("b", R(3)), absl::InfinitePast());
  EXPECT_FALSE(ledger.IsLeased(R(2), now)) << "lapsed";
  EXPECT_EQ(ledger.DropLapsedLeases(now).size(), 1u);
  EXPECT_EQ(ledger.DropLeases("a").size(), 1u);
  EXPECT_TRUE(ledger.IsLeased(R(1), now)) << "b's";
  EXPECT_EQ(ledger.DropLeases("b").size(), 1u);
  EXPECT_FALSE(ledger.IsLeased(R(1), now));
}

}  // namespace
}  // namespace kiln
