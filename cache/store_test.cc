// The contract of Store, held by every implementation.
#include "cache/store.h"

#include <gtest/gtest.h>

#include "cache/store_testing.h"

namespace kiln {
namespace {

constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;

class StoreTest : public ::testing::TestWithParam<TestStore::Kind> {
 protected:
  StoreOptions Options() {
    StoreOptions o;
    o.clock = &clock_;
    return o;
  }
  // A store that has room for `entries` entries of Entry's default size, named by one letter each.
  static StoreOptions Capped(StoreOptions o, uint64_t entries) {
    o.max_bytes = entries * kEntryBytes;
    return o;
  }
  static constexpr uint64_t kEntryBytes = (100 + sizeof(Digest)) + (10 + sizeof(Digest) + 2 * sizeof(Key));

  void Put(TestStore& store, const Publication& publication) {
    const absl::Status s = store->Publish(ctx_, publication);
    ASSERT_TRUE(s.ok()) << s;
    clock_.Advance(absl::Seconds(1));
  }
  bool Has(TestStore& store, const std::string& name) {
    const absl::StatusOr<std::vector<ListedRecord>> all = store->List(ctx_, {});
    return std::any_of(all->begin(), all->end(), [&](const ListedRecord& r) { return r.record.id == Id(name); });
  }
  void Use(TestStore& store, const std::string& name) {
    EXPECT_TRUE(store->GetRecord(ctx_, Id(name)).ok());
    clock_.Advance(absl::Seconds(1));
  }
  StoreStats Stats(TestStore& store) { return store->Stats(ctx_).value(); }

  FakeClock clock_;
  RequestContext ctx_;
};

TEST_P(StoreTest, WhatWasPublishedIsFound) {
  TestStore store(GetParam(), Options());
  const Publication p = Entry("a");
  Put(store, p);
  const Record r = store->GetRecord(ctx_, Id("a")).value();
  EXPECT_EQ(r.value, "value of a");
  EXPECT_EQ(r.blobs, std::vector<Digest>{p.blobs[0].digest});
  EXPECT_EQ(r.created, clock_.Now() - absl::Seconds(1));
  EXPECT_EQ(r.expires, absl::InfiniteFuture());
  EXPECT_EQ(store->GetBlob(ctx_, p.blobs[0].digest).value(), p.blobs[0].bytes);
}

TEST_P(StoreTest, WhatWasNotIsNot) {
  TestStore store(GetParam(), Options());
  EXPECT_EQ(store->GetRecord(ctx_, Id("a")).status().code(), kNotFound);
  EXPECT_EQ(store->GetBlob(ctx_, Digest::Of("a")).status().code(), kNotFound);
  EXPECT_TRUE(store->RemoveRecord(ctx_, Id("a")).ok());
  EXPECT_TRUE(store->RemoveBlob(ctx_, Digest::Of("a")).ok());
}

TEST_P(StoreTest, AnyBytesWillDo) {
  TestStore store(GetParam(), Options());
  const Blob empty = MakeBlob(""), zeros = MakeBlob(std::string(10, '\0')), large = MakeBlob(std::string(3 << 20, 'x'));
  Put(store, {{empty, zeros, large}, {MakeRecord(Id("a"), std::string("\0\1", 2), {empty.digest, large.digest})}});
  store.Reopen();
  EXPECT_EQ(store->GetBlob(ctx_, empty.digest).value(), "");
  EXPECT_EQ(store->GetBlob(ctx_, zeros.digest).value(), zeros.bytes);
  EXPECT_EQ(store->GetBlob(ctx_, large.digest).value(), large.bytes);
  EXPECT_EQ(store->GetRecord(ctx_, Id("a"))->value, std::string("\0\1", 2));
}

TEST_P(StoreTest, FindMissingKeepsTheOrder) {
  TestStore store(GetParam(), Options());
  Put(store, Entry("a"));
  const Digest a = BlobOf("a").digest, x = Digest::Of("x"), y = Digest::Of("y");
  EXPECT_EQ(store->FindMissing(ctx_, std::vector{y, a, x}).value(), (std::vector{y, x}));
}

TEST_P(StoreTest, ARecordReplacesAnother) {
  TestStore store(GetParam(), Options());
  Put(store, Entry("a"));
  const Blob other = MakeBlob("other");
  Put(store, {{other}, {MakeRecord(Id("a"), "new", {other.digest})}});
  EXPECT_EQ(store->GetRecord(ctx_, Id("a"))->value, "new");
  EXPECT_EQ(Stats(store).records[Table::kActions], 1u);
  EXPECT_EQ(Stats(store).blobs, 1u) << "the old record's blob is named by nobody";
}

TEST_P(StoreTest, TablesAndItemsAreApart) {
  TestStore store(GetParam(), Options());
  RecordId item = Id("a", Table::kVariants);
  item.item = MakeKey("item");
  const std::vector<RecordId> ids = {Id("a"), Id("a", Table::kKernels), Id("a", Table::kVariants), item};
  for (const RecordId& id : ids) Put(store, {{}, {MakeRecord(id, id.ToString())}});
  for (const RecordId& id : ids) EXPECT_EQ(store->GetRecord(ctx_, id)->value, id.ToString());
}

TEST_P(StoreTest, ARecordMustNotNameABlobThatIsNotThere) {
  TestStore store(GetParam(), Options());
  const Publication p = {{}, {MakeRecord(Id("a"), "v", {Digest::Of("x")})}};
  const absl::Status s = store->Publish(ctx_, p);
  EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(s.message().find("2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881/1"),
            absl::string_view::npos)
      << s;
  EXPECT_EQ(store->GetRecord(ctx_, Id("a")).status().code(), kNotFound);
}

TEST_P(StoreTest, BlobsMayComeBeforeTheirRecord) {
  TestStore store(GetParam(), Options());
  Publication p = Entry("a");
  Put(store, {p.blobs, {}});
  EXPECT_EQ(store->GetBlob(ctx_, p.blobs[0].digest).value(), p.blobs[0].bytes);
  Put(store, {{}, p.records});
  EXPECT_TRUE(store->GetRecord(ctx_, Id("a")).ok());
}

TEST_P(StoreTest, ABlobThatNobodyNamesStaysForAWhile) {
  TestStore store(GetParam(), Options());
  const Digest d = BlobOf("a").digest;
  Put(store, {{BlobOf("a")}, {}});
  clock_.Advance(absl::Minutes(9));
  EXPECT_TRUE(store->Maintain(ctx_).ok());
  EXPECT_TRUE(store->GetBlob(ctx_, d).ok());
  Put(store, {{BlobOf("a")}, {}});  // its time begins anew
  clock_.Advance(absl::Minutes(9));
  EXPECT_TRUE(store->Maintain(ctx_).ok());
  EXPECT_TRUE(store->GetBlob(ctx_, d).ok());
  clock_.Advance(absl::Minutes(1));
  EXPECT_TRUE(store->Maintain(ctx_).ok());
  EXPECT_EQ(store->GetBlob(ctx_, d).status().code(), kNotFound);
}

TEST_P(StoreTest, TwoRecordsOfOneIdAreRefused) {
  TestStore store(GetParam(), Options());
  const Record r = MakeRecord(Id("a"), "v");
  EXPECT_EQ(store->Publish(ctx_, {{}, {r, r}}).code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(StoreTest, SharedBlobsGoWithTheLastRecord) {
  TestStore store(GetParam(), Options());
  const Blob shared = MakeBlob("shared");
  Put(store, {{shared}, {MakeRecord(Id("a"), "a", {shared.digest}), MakeRecord(Id("b"), "b", {shared.digest})}});
  EXPECT_TRUE(store->RemoveRecord(ctx_, Id("a")).ok());
  EXPECT_EQ(store->GetRecord(ctx_, Id("a")).status().code(), kNotFound);
  EXPECT_TRUE(store->GetBlob(ctx_, shared.digest).ok());
  EXPECT_TRUE(store->RemoveRecord(ctx_, Id("b")).ok());
  EXPECT_EQ(store->GetBlob(ctx_, shared.digest).status().code(), kNotFound);
  EXPECT_EQ(Stats(store).bytes, 0u);
}

TEST_P(StoreTest, RemovingABlobRemovesTheRecordsThatNameIt) {
  TestStore store(GetParam(), Options());
  const Blob bad = MakeBlob("bad"), good = MakeBlob("good");
  Put(store,
      {{bad, good}, {MakeRecord(Id("a"), "a", {bad.digest, good.digest}), MakeRecord(Id("b"), "b", {good.digest})}});
  EXPECT_TRUE(store->RemoveBlob(ctx_, bad.digest).ok());
  EXPECT_EQ(store->GetRecord(ctx_, Id("a")).status().code(), kNotFound);
  EXPECT_TRUE(store->GetRecord(ctx_, Id("b")).ok());
  EXPECT_TRUE(store->GetBlob(ctx_, good.digest).ok());
  EXPECT_EQ(Stats(store).incomplete, 1u);
}

TEST_P(StoreTest, NamespacesAreApart) {
  TestStore store(GetParam(), Options());
  RequestContext alice = ctx_, bob = ctx_, admin = ctx_;
  alice.ns = "uid:1000";
  bob.ns = "uid:1001";
  admin.admin = true;
  const RecordId mine = Id("a", Table::kActions, "uid:1000");
  EXPECT_EQ(store->Publish(bob, {{}, {MakeRecord(mine, "forged")}}).code(), absl::StatusCode::kPermissionDenied);
  Put(store, Entry("shared"));
  EXPECT_TRUE(store->Publish(alice, {{}, {MakeRecord(mine, "v")}}).ok());
  EXPECT_EQ(store->GetRecord(alice, mine)->value, "v");
  EXPECT_EQ(store->GetRecord(admin, mine)->value, "v");
  EXPECT_EQ(store->GetRecord(bob, mine).status().code(), kNotFound);
  EXPECT_EQ(store->RemoveRecord(bob, mine).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(store->List(alice, {})->size(), 2u);
  EXPECT_EQ(store->List(bob, {})->size(), 1u);
  EXPECT_EQ(store->List(bob, {.all_namespaces = true}).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(store->List(admin, {.all_namespaces = true})->size(), 2u);
  EXPECT_TRUE(store->RemoveRecord(admin, mine).ok());
  EXPECT_EQ(store->GetRecord(alice, mine).status().code(), kNotFound);
}

TEST_P(StoreTest, BadNamespacesAreRefused) {
  TestStore store(GetParam(), Options());
  RequestContext admin = ctx_;
  admin.admin = true;
  for (const std::string& ns :
       {std::string("a\0b", 3), std::string("a b"), std::string("a/b"), std::string(129, 'a')}) {
    EXPECT_EQ(store->Publish(admin, {{}, {MakeRecord(Id("a", Table::kActions, ns), "v")}}).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_P(StoreTest, ListGivesOneKeysItemsInOrderAndPages) {
  TestStore store(GetParam(), Options());
  std::vector<RecordId> ids;
  for (int i = 0; i < 7; ++i) {
    RecordId id = Id("set", Table::kVariants);
    id.item = MakeKey(std::to_string(i));
    ids.push_back(id);
    Put(store, {{}, {MakeRecord(id, std::to_string(i))}});
  }
  std::sort(ids.begin(), ids.end());
  Put(store, {{}, {MakeRecord(Id("other", Table::kVariants), "other")}});
  std::vector<RecordId> seen;
  ListRequest page{.table = Table::kVariants, .key = MakeKey("set"), .limit = 3};
  for (;;) {
    const std::vector<ListedRecord> part = store->List(ctx_, page).value();
    if (part.empty()) break;
    for (const ListedRecord& r : part) seen.push_back(r.record.id);
    page.after = seen.back();
  }
  EXPECT_EQ(seen, ids);
  EXPECT_EQ(store->List(ctx_, {.table = Table::kVariants})->size(), 8u);
}

TEST_P(StoreTest, NegativeEntriesExpireAfterTenMinutes) {
  TestStore store(GetParam(), Options());
  Put(store, {{}, {MakeRecord(Id("a", Table::kNegative), "crashed twice")}});
  clock_.Advance(absl::Minutes(10) - absl::Seconds(2));
  EXPECT_EQ(store->GetRecord(ctx_, Id("a", Table::kNegative))->value, "crashed twice");
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(store->GetRecord(ctx_, Id("a", Table::kNegative)).status().code(), kNotFound);
  EXPECT_EQ(Stats(store).records[Table::kNegative], 0u);
  EXPECT_EQ(Stats(store).expired, 1u);
}

TEST_P(StoreTest, AnyRecordMayExpire) {
  TestStore store(GetParam(), Options());
  Publication p = Entry("a");
  p.records[0].expires = clock_.Now() + absl::Hours(1);
  Put(store, p);
  Put(store, Entry("b"));
  store.Reopen();
  clock_.Advance(absl::Hours(1));
  EXPECT_FALSE(Has(store, "a"));
  EXPECT_TRUE(store->Maintain(ctx_).ok());
  EXPECT_EQ(Stats(store).records[Table::kActions], 1u);
  EXPECT_EQ(store->GetBlob(ctx_, BlobOf("a").digest).status().code(), kNotFound);
  EXPECT_TRUE(store->GetRecord(ctx_, Id("b")).ok());
}

TEST_P(StoreTest, TheCapEvictsWhatWasUsedLongestAgo) {
  TestStore store(GetParam(), Capped(Options(), 3));
  for (const char* name : {"a", "b", "c"}) Put(store, Entry(name));
  EXPECT_EQ(Stats(store).bytes, 3 * kEntryBytes);
  Use(store, "a");
  Put(store, Entry("d"));
  EXPECT_TRUE(Has(store, "a") && !Has(store, "b") && Has(store, "c") && Has(store, "d"));
  EXPECT_EQ(store->GetBlob(ctx_, BlobOf("b").digest).status().code(), kNotFound);
  Use(store, "c");
  store.Reopen();  // the order outlives the process
  Put(store, Entry("e"));
  EXPECT_TRUE(!Has(store, "a") && Has(store, "c") && Has(store, "d") && Has(store, "e"));
  EXPECT_LE(Stats(store).bytes, 3 * kEntryBytes);
}

TEST_P(StoreTest, EvictionSparesBlobsThatThePublicationNames) {
  TestStore store(GetParam(), Capped(Options(), 2));
  Put(store, Entry("a"));
  Put(store, Entry("b"));
  // Names a's blob, which only a, the next to go, keeps alive.
  Put(store, {{}, {MakeRecord(Id("c"), "value of c", {BlobOf("a").digest})}});
  EXPECT_FALSE(Has(store, "a"));
  EXPECT_TRUE(store->GetRecord(ctx_, Id("c")).ok());
  EXPECT_TRUE(store->GetBlob(ctx_, BlobOf("a").digest).ok());
}

TEST_P(StoreTest, WhatExceedsTheCapIsRefusedAndEvictsNothing) {
  TestStore store(GetParam(), Capped(Options(), 2));
  Put(store, Entry("a"));
  EXPECT_EQ(store->Publish(ctx_, Entry("huge", 10000)).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Has(store, "a"));
}

TEST_P(StoreTest, ALowerCapIsEnforcedByMaintain) {
  TestStore store(GetParam(), Options());
  if (GetParam() == TestStore::kMemory) GTEST_SKIP() << "its cap never changes";
  for (const char* name : {"a", "b", "c"}) Put(store, Entry(name));
  store.options() = Capped(Options(), 1);
  store.Reopen();
  EXPECT_TRUE(store->Maintain(ctx_).ok());
  EXPECT_TRUE(!Has(store, "a") && !Has(store, "b") && Has(store, "c"));
}

TEST_P(StoreTest, IdleRecordsGo) {
  StoreOptions options = Options();
  options.max_idle = absl::Hours(24);
  TestStore store(GetParam(), options);
  Put(store, Entry("a"));
  Put(store, Entry("b"));
  clock_.Advance(absl::Hours(20));
  Use(store, "b");
  clock_.Advance(absl::Hours(4));
  EXPECT_TRUE(store->Maintain(ctx_).ok());
  EXPECT_TRUE(!Has(store, "a") && Has(store, "b"));
  EXPECT_EQ(Stats(store).evicted, 1u);
}

TEST_P(StoreTest, LeasedRecordsAreNotEvicted) {
  TestStore store(GetParam(), Capped(Options(), 2));
  Put(store, Entry("a"));
  Put(store, Entry("b"));
  EXPECT_TRUE(store->Lease(Job("j"), Id("a"), clock_.Now() + absl::Hours(1)).ok());
  store.Reopen();
  EXPECT_EQ(Stats(store).leases, 1u);
  Put(store, Entry("c"));
  EXPECT_TRUE(Has(store, "a") && !Has(store, "b") && Has(store, "c"));
  EXPECT_TRUE(store->Lease(Job("k"), Id("c"), clock_.Now() + absl::Hours(1)).ok());
  EXPECT_EQ(store->Publish(ctx_, Entry("d")).code(), absl::StatusCode::kResourceExhausted);
  clock_.Advance(absl::Hours(1));
  Put(store, Entry("d"));
  EXPECT_TRUE(!Has(store, "a") && Has(store, "c") && Has(store, "d"));
  EXPECT_TRUE(store->Maintain(ctx_).ok());
  EXPECT_EQ(Stats(store).leases, 0u);
}

TEST_P(StoreTest, ALeaseCanBeEnded) {
  TestStore store(GetParam(), Capped(Options(), 2));
  Put(store, Entry("a"));
  Put(store, Entry("b"));
  for (const char* name : {"a", "b"}) {
    EXPECT_TRUE(store->Lease(Job("j"), Id(name), clock_.Now() + absl::Hours(1)).ok());
  }
  EXPECT_TRUE(store->Lease(Job("j"), Id("a"), absl::InfinitePast()).ok());
  Put(store, Entry("c"));
  EXPECT_TRUE(!Has(store, "a") && Has(store, "b") && Has(store, "c"));
  EXPECT_TRUE(store->ReleaseLeases(Job("j")).ok());
  store.Reopen();
  Put(store, Entry("d"));
  EXPECT_TRUE(!Has(store, "b") && Has(store, "c") && Has(store, "d"));
}

TEST_P(StoreTest, TheBlobsOfARemovedLeasedRecordStayAsLongAsTheLease) {
  TestStore store(GetParam(), Options());
  Put(store, Entry("a"));
  Put(store, {{}, {MakeRecord(Id("b"), "b", {BlobOf("a").digest})}});
  EXPECT_TRUE(store->Lease(Job("j"), Id("a"), clock_.Now() + absl::Hours(1)).ok());
  EXPECT_TRUE(store->RemoveRecord(ctx_, Id("a")).ok());
  EXPECT_TRUE(store->RemoveRecord(ctx_, Id("b")).ok());
  EXPECT_FALSE(Has(store, "a"));
  EXPECT_TRUE(store->Maintain(ctx_).ok());
  EXPECT_TRUE(store->GetBlob(ctx_, BlobOf("a").digest).ok());
  clock_.Advance(absl::Hours(1));
  EXPECT_TRUE(store->Maintain(ctx_).ok());
  EXPECT_EQ(store->GetBlob(ctx_, BlobOf("a").digest).status().code(), kNotFound);
}

TEST_P(StoreTest, ALeaseMayBeTakenAgain) {
  TestStore store(GetParam(), Options());
  Put(store, Entry("a"));
  const absl::Time until = clock_.Now() + absl::Hours(1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(store->Lease(Job("j"), Id("a"), until).ok());
  EXPECT_TRUE(store->Lease(Job("k"), Id("a"), until).ok());
  EXPECT_EQ(store->Stats(ctx_)->leases, 2u);
  EXPECT_TRUE(store->ReleaseLeases(Job("j")).ok());
  EXPECT_TRUE(store->Lease(Job("j"), Id("a"), until).ok());
  EXPECT_EQ(store->Stats(ctx_)->leases, 2u);
  EXPECT_TRUE(store->RemoveRecord(ctx_, Id("a")).ok());
  EXPECT_EQ(store->Lease(Job("j"), Id("a"), until).code(), kNotFound);
}

TEST_P(StoreTest, LeasesNeedAJobAndARecord) {
  TestStore store(GetParam(), Options());
  Put(store, Entry("a"));
  const absl::Time until = clock_.Now() + absl::Hours(1);
  EXPECT_EQ(store->Lease(ctx_, Id("a"), until).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store->Lease(Job("j"), Id("b"), until).code(), kNotFound);
  EXPECT_TRUE(store->Lease(Job("j"), Id("a"), until).ok());
  EXPECT_TRUE(store->List(ctx_, {})->at(0).leased);
}

TEST_P(StoreTest, AnEndedContextGetsNothing) {
  TestStore store(GetParam(), Options());
  Put(store, Entry("a"));
  RequestContext late = ctx_, cancelled = ctx_;
  late.deadline = clock_.Now();
  std::stop_source stop;
  stop.request_stop();
  cancelled.stop = stop.get_token();
  EXPECT_EQ(store->GetRecord(late, Id("a")).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(store->Publish(late, Entry("b")).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(store->GetRecord(cancelled, Id("a")).status().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(Has(store, "b"));
}

TEST_P(StoreTest, ADeadlineIsOfTheStoresClock) {
  TestStore store(GetParam(), Options());  // whose clock is years behind
  Put(store, Entry("a"));
  store.Reopen();
  ctx_.deadline = clock_.Now() + absl::Seconds(30);
  EXPECT_TRUE(store->GetRecord(ctx_, Id("a")).ok());
  EXPECT_TRUE(store->GetBlob(ctx_, BlobOf("a").digest).ok());
}

TEST_P(StoreTest, AFailureAtAnyStepLeavesAllOrNothing) {
  for (PublishStep at : {PublishStep::kPlanned, PublishStep::kBlobsStaged, PublishStep::kRecordsStaged,
                         PublishStep::kCommitted, PublishStep::kAcknowledged}) {
    StoreOptions options = Options();
    bool armed = false;
    options.publish_hook = [&](PublishStep step) {
      return armed && step == at ? absl::InternalError("fault") : absl::OkStatus();
    };
    TestStore store(GetParam(), options);
    Put(store, Entry("a"));
    armed = true;
    EXPECT_EQ(store->Publish(ctx_, Entry("b")), absl::InternalError("fault"));
    armed = false;
    for (int restart = 0; restart < 2; ++restart) {
      const bool published = at >= PublishStep::kCommitted;
      EXPECT_EQ(store->GetRecord(ctx_, Id("b")).ok(), published);
      EXPECT_EQ(store->GetBlob(ctx_, BlobOf("b").digest).ok(), published);
      EXPECT_TRUE(store->GetRecord(ctx_, Id("a")).ok());
      store.Reopen();
    }
    Put(store, Entry("b"));
    EXPECT_TRUE(store->GetRecord(ctx_, Id("b")).ok());
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreTest, ::testing::Values(TestStore::kMemory, TestStore::kRocksDb),
                         [](const auto& info) { return info.param == TestStore::kMemory ? "Memory" : "RocksDb"; });

}  // namespace
}  // namespace kiln
