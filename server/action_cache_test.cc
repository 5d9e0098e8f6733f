#include "server/action_cache.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "cache/error_store.h"
#include "cache/fake_clock.h"
#include "cache/memory_store.h"
#include "compiler/artifact/call_spec.h"
#include "server/wire.h"

namespace kiln {
namespace {

Key TestKey(const std::string& name) { return KeyBuilder("test").Add("name", name).Build()->ToKey(); }

class ActionCaches : public testing::Test {
 protected:
  ActionCaches()
      : metrics_("build", "version"),
        store_(NewErrorStore(NewMemoryStore({.clock = &clock_}),
                             {.fail =
                                  [this](std::string_view op) {
                                    return op == failing_ ? absl::UnavailableError("the disk is on fire")
                                                          : absl::OkStatus();
                                  }})),
        cache_(store_.get(), &metrics_, &clock_, absl::Seconds(60), NullLogger()) {}

  v1::Done Publish(const std::string& artifact, const std::string& object) {
    v1::ActionRecord record;
    record.set_compile_seconds(1.5);
    return cache_.PublishAction({}, key_, record, {artifact, object, "provenance", "guards"});
  }
  bool Counted(const std::string& operation) const {
    return absl::StrContains(metrics_.Text(nullptr), "kiln_cache_errors_total{operation=\"" + operation + "\"} 1\n");
  }

  FakeClock clock_;
  Metrics metrics_;
  std::string failing_;  // the store's function that fails
  std::unique_ptr<Store> store_;
  ActionCache cache_;
  const Key key_ = TestKey("k");
};

TEST_F(ActionCaches, WhatIsPublishedIsFound) {
  EXPECT_FALSE(cache_.LookupAction({}, key_));
  const v1::Done made = Publish("artifact", "object");
  EXPECT_EQ(made.outcome(), v1::Done::COMPILED);
  EXPECT_EQ(made.artifact(), "artifact");
  const std::optional<v1::Done> hit = cache_.LookupAction({}, key_);
  ASSERT_TRUE(hit);
  EXPECT_EQ(hit->outcome(), v1::Done::HIT);
  EXPECT_EQ(hit->artifact(), "artifact");
  EXPECT_EQ(hit->shared_object(), "object");
  EXPECT_EQ(hit->key(), std::string(key_.bytes()));
  EXPECT_EQ(hit->record().compile_seconds(), 1.5);
  EXPECT_EQ(FromProto(hit->record().guards(), "").value(), Digest::Of("guards"));
}

// They rest on the word of whoever put them there.
TEST_F(ActionCaches, VariantsAreSeenInTheirNamespaceAlone) {
  v1::Variant variant;
  variant.set_version(kVariantVersion);
  *variant.mutable_record() = Publish("artifact", "object").record();
  RequestContext mine, theirs;
  mine.ns = "mine";
  theirs.ns = "theirs";
  ASSERT_TRUE(cache_.PublishVariant(mine, key_, variant, "request").ok());
  ASSERT_TRUE(cache_.LookupVariant(mine, key_, {}).has_value());
  EXPECT_EQ(cache_.LookupVariant(mine, key_, {})->record().SerializeAsString(), variant.record().SerializeAsString());
  EXPECT_FALSE(cache_.LookupVariant(theirs, key_, {}).has_value());
  EXPECT_FALSE(cache_.LookupVariant(mine, TestKey("other"), {}).has_value());
}

TEST_F(ActionCaches, OneVariantForTheSamePredicates) {
  v1::Variant wrong;
  wrong.set_version(kVariantVersion);
  wrong.set_refused("a guess");
  v1::Variant right = wrong;
  right.set_refused("the reason");
  ASSERT_TRUE(cache_.PublishVariant({}, key_, wrong, "request").ok());
  ASSERT_TRUE(cache_.PublishVariant({}, key_, right, "request").ok());
  EXPECT_EQ(cache_.LookupVariant({}, key_, {})->refused(), "the reason");
  const auto variants = store_->List({}, {.table = Table::kVariants, .key = key_, .limit = 8});
  ASSERT_TRUE(variants.ok());
  EXPECT_EQ(variants->size(), 1u);
}

TEST_F(ActionCaches, AVariantWhoseCodeIsGoneIsAMiss) {
  v1::Variant variant;
  variant.set_version(kVariantVersion);
  *variant.mutable_record() = Publish("artifact", "object").record();
  ASSERT_TRUE(cache_.PublishVariant({}, key_, variant, "request").ok());
  ASSERT_TRUE(store_->RemoveBlob({}, Digest::Of("object")).ok());
  EXPECT_FALSE(cache_.LookupVariant({}, key_, {}).has_value());
}

TEST_F(ActionCaches, AVariantThatTheStoreCannotGiveIsAMissAndCounted) {
  failing_ = "List";
  EXPECT_FALSE(cache_.LookupVariant({}, key_, {}).has_value());
  EXPECT_TRUE(Counted("lookup_variant"));
}

TEST_F(ActionCaches, OnlySmallBlobsAreInline) {
  Publish(std::string(kInlineBytes - 1, 'a'), std::string(kInlineBytes, 'b'));
  const std::optional<v1::Done> hit = cache_.LookupAction({}, key_);
  EXPECT_EQ(hit->artifact().size(), kInlineBytes - 1);
  EXPECT_EQ(hit->shared_object(), "");
}

TEST_F(ActionCaches, NoSharedObjectNoDigest) {
  EXPECT_FALSE(Publish("artifact", "").record().has_shared_object());
  EXPECT_FALSE(cache_.LookupAction({}, key_)->record().has_shared_object());
}

TEST_F(ActionCaches, AnErrorIsAMissAndCounted) {
  Publish("artifact", "object");
  failing_ = "GetRecord";
  EXPECT_FALSE(cache_.LookupAction({}, key_));
  EXPECT_TRUE(Counted("lookup"));
  EXPECT_FALSE(cache_.LookupNegative({}, key_));
  EXPECT_FALSE(cache_.LookupKernel({}, key_));
  failing_ = "GetBlob";
  EXPECT_FALSE(cache_.LookupAction({}, key_));
  failing_ = "";
  EXPECT_TRUE(cache_.LookupAction({}, key_));
}

TEST_F(ActionCaches, AFailedPublicationIsAnsweredInFull) {
  failing_ = "Publish";
  const std::string large(2 * kInlineBytes, 'x');
  const v1::Done done = Publish(large, large);
  EXPECT_EQ(done.artifact(), large);
  EXPECT_EQ(done.shared_object(), large);
  EXPECT_TRUE(Counted("publish"));
  EXPECT_EQ(cache_.PublishNegative({}, key_, {}, "request"), "");
  cache_.PublishKernel({}, key_, "object");
  EXPECT_TRUE(Counted("publish_kernel"));
}

TEST_F(ActionCaches, PublishingOutlivesTheRequest) {
  std::stop_source gone;
  gone.request_stop();
  RequestContext ctx;
  ctx.stop = gone.get_token();
  ctx.deadline = clock_.Now() - absl::Seconds(1);
  cache_.PublishKernel(ctx, key_, "object");
  EXPECT_EQ(cache_.LookupKernel({}, key_), "object");
}

TEST_F(ActionCaches, NegativeEntriesExpireAndNameTheirRequest) {
  v1::Failure failure;
  failure.set_message("crashed");
  const std::string reproducer = cache_.PublishNegative({}, key_, failure, "request");
  EXPECT_EQ(reproducer, Digest::Of("request").Hex());
  const std::optional<v1::Failure> found = cache_.LookupNegative({}, key_);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->negative());
  EXPECT_EQ(found->message(), "crashed");
  EXPECT_EQ(found->reproducer(), reproducer);
  EXPECT_EQ(store_->GetBlob({}, Digest::Of("request")).value(), "request");
  clock_.Advance(absl::Seconds(61));
  EXPECT_FALSE(cache_.LookupNegative({}, key_));
}

TEST_F(ActionCaches, AnswersAreLeasedToTheJob) {
  Publish("artifact", "object");
  RequestContext ctx;
  ctx.job_id = "train";
  ASSERT_TRUE(cache_.LookupAction(ctx, key_));
  EXPECT_EQ(store_->Stats({})->leases, 1u);
}

TEST_F(ActionCaches, LeasesLastAnHourAndARenewalNotMuchLonger) {
  Publish("artifact", "object");
  RequestContext ctx;
  ctx.job_id = "train";
  ASSERT_TRUE(cache_.LookupAction(ctx, key_));
  clock_.Advance(absl::Minutes(59));
  EXPECT_EQ(store_->Stats({})->leases, 1u);
  ASSERT_TRUE(cache_.LookupAction(ctx, key_));
  clock_.Advance(absl::Minutes(59));
  EXPECT_EQ(store_->Stats({})->leases, 1u);
  clock_.Advance(absl::Minutes(7));
  EXPECT_EQ(store_->Stats({})->leases, 0u);
}

}  // namespace
}  // namespace kiln
