// Both stores against a model that is too simple to be wrong: random operations, restarts in between.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "cache/store_testing.h"

namespace kiln {
namespace {

constexpr int kIds = 25;
constexpr int kBlobs = 30;
constexpr uint64_t kCap = 2500;

// The n-th record always has the same contents, as a compiled artifact would; neighbours share blobs.
std::string BlobBytes(int n) {
  return std::string(static_cast<size_t>(50 + 37 * n % 400), static_cast<char>('a' + n % 26)) + std::to_string(n);
}
Blob NthBlob(int n) { return MakeBlob(BlobBytes(n)); }
Record NthRecord(int n) {
  const Table table = kAllTables[static_cast<size_t>(n) % kAllTables.size()];
  Record r = MakeRecord(Id(std::to_string(n), table, n % 3 == 0 ? "default" : ""), "value " + std::to_string(n));
  for (int i = 0; i < n % 4; ++i) r.blobs.push_back(NthBlob((n + 3 * i) % kBlobs).digest);
  return r;
}

class Model {
 public:
  struct Entry {
    Record record;
    absl::Time used;
    std::map<std::string, absl::Time> leases;
  };
  using State = std::map<RecordId, Entry>;

  absl::StatusCode Publish(const std::vector<Record>& records, absl::Time now) {
    State next = state_;
    std::set<RecordId> ours;
    for (Record r : records) {
      r.created = now;
      if (r.expires == absl::InfiniteFuture() && r.id.table == Table::kNegative) r.expires = now + absl::Minutes(10);
      next[r.id].record = r;
      next[r.id].used = now;
      ours.insert(r.id);
    }
    if (Bytes(next) > kCap) {
      std::erase_if(next, [&](const auto& e) { return e.second.record.expires <= now && !ours.contains(e.first); });
    }
    while (Bytes(next) > kCap) {
      auto oldest = next.end();
      for (auto it = next.begin(); it != next.end(); ++it) {
        if (ours.contains(it->first) || Leased(it->second, now)) continue;
        if (oldest == next.end() || it->second.used < oldest->second.used) oldest = it;
      }
      if (oldest == next.end()) return absl::StatusCode::kResourceExhausted;
      next.erase(oldest);
    }
    state_ = next;
    return absl::StatusCode::kOk;
  }

  const Record* Get(const RecordId& id, absl::Time now) {
    const auto it = state_.find(id);
    if (it == state_.end()) return nullptr;
    if (it->second.record.expires <= now) {
      state_.erase(it);
      return nullptr;
    }
    it->second.used = now;
    return &it->second.record;
  }

  void Remove(const RecordId& id) { state_.erase(id); }

  void Lease(const RecordId& id, const std::string& job, absl::Time until) { state_.at(id).leases[job] = until; }

  void ReleaseLeases(const std::string& job) {
    for (auto& [id, entry] : state_) entry.leases.erase(job);
  }

  void Maintain(absl::Time now) {
    std::erase_if(state_, [&](const auto& e) {
      const bool idle = now - e.second.used >= absl::Minutes(30) && !Leased(e.second, now);
      return e.second.record.expires <= now || idle;
    });
  }

  static bool Leased(const Entry& e, absl::Time now) {
    return std::any_of(e.leases.begin(), e.leases.end(), [&](const auto& lease) { return lease.second > now; });
  }

  static uint64_t Bytes(const State& state) {
    std::set<Digest> blobs;
    uint64_t sum = 0;
    for (const auto& [id, e] : state) {
      sum += e.record.value.size() + sizeof(Digest) * e.record.blobs.size() + id.ns.size() + 2 * sizeof(Key);
      blobs.insert(e.record.blobs.begin(), e.record.blobs.end());
    }
    for (const Digest& d : blobs) sum += d.size + sizeof(Digest);
    return sum;
  }

  const State& state() const { return state_; }

 private:
  State state_;
};

class StoreModelTest : public ::testing::TestWithParam<unsigned> {
 protected:
  StoreModelTest() : memory_(TestStore::kMemory, Options()), disk_(TestStore::kRocksDb, Options()) {}

  StoreOptions Options() {
    StoreOptions o;
    o.clock = &clock_;
    o.max_bytes = kCap;
    o.max_idle = absl::Minutes(30);
    return o;
  }
  int Pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  void Publish() {
    Publication p;
    std::set<RecordId> ids;
    std::set<Digest> blobs;
    for (int n = Pick(3); n >= 0; --n) {
      Record r = NthRecord(Pick(kIds));
      if (!ids.insert(r.id).second) continue;
      // An expiring record that is leased would leave its blobs behind, which the model does not know.
      const auto old = model_.state().find(r.id);
      const bool leased = old != model_.state().end() && Model::Leased(old->second, clock_.Now());
      if (Pick(5) == 0 && !leased) r.expires = clock_.Now() + absl::Seconds(Pick(600));
      blobs.insert(r.blobs.begin(), r.blobs.end());
      p.records.push_back(r);
    }
    // Records of one publication are used at one time; by id is then the order in which the model evicts.
    std::sort(p.records.begin(), p.records.end(), [](const Record& a, const Record& b) { return a.id < b.id; });
    for (int n = 0; n < kBlobs; ++n) {
      if (blobs.contains(NthBlob(n).digest)) p.blobs.push_back(NthBlob(n));
    }
    const absl::StatusCode want = model_.Publish(p.records, clock_.Now());
    EXPECT_EQ(memory_->Publish(ctx_, p).code(), want);
    EXPECT_EQ(disk_->Publish(ctx_, p).code(), want);
    refused_ += want != absl::StatusCode::kOk;
  }

  void Get() {
    const RecordId id = NthRecord(Pick(kIds)).id;
    const Record* want = model_.Get(id, clock_.Now());
    for (TestStore* store : {&memory_, &disk_}) {
      const absl::StatusOr<Record> have = (*store)->GetRecord(ctx_, id);
      ASSERT_EQ(have.ok(), want != nullptr) << have.status();
      if (want == nullptr) continue;
      EXPECT_EQ(*have, *want);
      for (const Digest& d : want->blobs) EXPECT_EQ(Digest::Of((*store)->GetBlob(ctx_, d).value()), d);
    }
  }

  void Remove() {
    const RecordId id = NthRecord(Pick(kIds)).id;
    const auto entry = model_.state().find(id);
    // As above.
    if (entry == model_.state().end() || Model::Leased(entry->second, clock_.Now())) return;
    model_.Remove(id);
    EXPECT_TRUE(memory_->RemoveRecord(ctx_, id).ok());
    EXPECT_TRUE(disk_->RemoveRecord(ctx_, id).ok());
  }

  void Lease() {
    const RecordId id = NthRecord(Pick(kIds)).id;
    const auto entry = model_.state().find(id);
    // As above.
    if (entry == model_.state().end() || entry->second.record.expires != absl::InfiniteFuture()) return;
    const std::string job = std::to_string(Pick(3));
    const absl::Time until = clock_.Now() + absl::Seconds(Pick(500));
    model_.Lease(id, job, until);
    EXPECT_TRUE(memory_->Lease(Job(job), id, until).ok());
    EXPECT_TRUE(disk_->Lease(Job(job), id, until).ok());
  }

  void Maintain() {
    model_.Maintain(clock_.Now());
    EXPECT_TRUE(memory_->Maintain(ctx_).ok());
    EXPECT_TRUE(disk_->Maintain(ctx_).ok());
  }

  void ReleaseLeases() {
    const std::string job = std::to_string(Pick(3));
    model_.ReleaseLeases(job);
    EXPECT_TRUE(memory_->ReleaseLeases(Job(job)).ok());
    EXPECT_TRUE(disk_->ReleaseLeases(Job(job)).ok());
  }

  void Compare() {
    std::set<RecordId> want;
    for (const auto& [id, entry] : model_.state()) {
      if (entry.record.expires > clock_.Now()) want.insert(id);
    }
    for (TestStore* store : {&memory_, &disk_}) {
      std::set<RecordId> have;
      for (Table table : kAllTables) {
        const absl::StatusOr<std::vector<ListedRecord>> listed = (*store)->List(ctx_, {.table = table});
        for (const ListedRecord& r : *listed) {
          have.insert(r.record.id);
          if (!model_.state().contains(r.record.id)) continue;
          EXPECT_EQ(r.record, model_.state().at(r.record.id).record);
          EXPECT_EQ(r.last_used, model_.state().at(r.record.id).used);
          EXPECT_EQ(r.leased, Model::Leased(model_.state().at(r.record.id), clock_.Now()));
        }
      }
      EXPECT_EQ(have, want);
      EXPECT_EQ((*store)->Stats(ctx_)->bytes, Model::Bytes(model_.state()));
    }
  }

  FakeClock clock_;
  RequestContext ctx_;
  std::mt19937 random_{GetParam()};
  Model model_;
  TestStore memory_, disk_;
  int refused_ = 0;
};

TEST_P(StoreModelTest, Agree) {
  for (int i = 0; i < 1500 && !HasFailure(); ++i) {
    clock_.Advance(absl::Milliseconds(1 + Pick(20000)));
    const int what = Pick(100);
    if (what < 40) Publish();
    if (what >= 40 && what < 75) Get();
    if (what >= 75 && what < 82) Remove();
    if (what >= 82 && what < 92) Lease();
    if (what == 92) ReleaseLeases();
    if (what >= 93 && what < 96) Maintain();
    if (what >= 96 && what < 98) Compare();
    if (what == 98) disk_.Reopen();
  }
  Compare();
  EXPECT_GT(refused_, 0) << "the cap was never out of reach";
  EXPECT_GT(memory_->Stats(ctx_)->published, 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, StoreModelTest, ::testing::Range(1u, 6u));

}  // namespace
}  // namespace kiln
