#include "cache/read_through_store.h"

#include <gtest/gtest.h>

#include "cache/error_store.h"
#include "cache/store_testing.h"

namespace kiln {
namespace {

class ReadThroughStoreTest : public ::testing::Test {
 protected:
  // True if the blob of `name` came from memory.
  bool FromMemory(const std::string& name) {
    const int before = reads_;
    EXPECT_EQ(store_->GetBlob(ctx_, BlobOf(name).digest).value(), BlobOf(name).bytes);
    return reads_ == before;
  }
  void Fill(const std::string& name) { EXPECT_TRUE(below_->Publish(ctx_, Entry(name)).ok()); }

  int reads_ = 0;
  Store* below_ = nullptr;
  RequestContext ctx_;
  std::unique_ptr<Store> store_ = [this] {
    Faults count;
    count.fail = [this](std::string_view op) {
      reads_ += op == "GetBlob";
      return absl::OkStatus();
    };
    std::unique_ptr<Store> below = NewErrorStore(NewMemoryStore({}), count);
    below_ = below.get();
    return NewReadThroughStore(std::move(below), 1000);  // room for ten
  }();
};

TEST_F(ReadThroughStoreTest, TheSecondReadIsFromMemory) {
  Fill("a");
  EXPECT_FALSE(FromMemory("a"));
  EXPECT_TRUE(FromMemory("a"));
}

TEST_F(ReadThroughStoreTest, WhatWasPublishedIsInMemory) {
  EXPECT_TRUE(store_->Publish(ctx_, Entry("a")).ok());
  EXPECT_TRUE(FromMemory("a"));
}

TEST_F(ReadThroughStoreTest, WhatWasReadLongestAgoGoes) {
  for (char c = 'a'; c <= 'j'; ++c) {
    Fill(std::string(1, c));
    EXPECT_FALSE(FromMemory(std::string(1, c)));
  }
  EXPECT_TRUE(FromMemory("a"));
  Fill("k");
  EXPECT_FALSE(FromMemory("k"));
  EXPECT_TRUE(FromMemory("a"));
  EXPECT_FALSE(FromMemory("b"));
}

TEST_F(ReadThroughStoreTest, LargeBlobsAreNotKept) {
  const Blob large = BlobOf("large", 126);
  EXPECT_TRUE(store_->Publish(ctx_, {{large}, {}}).ok());
  EXPECT_TRUE(store_->GetBlob(ctx_, large.digest).ok());
  EXPECT_EQ(reads_, 1);
}

TEST_F(ReadThroughStoreTest, FindMissingTellsOfTheStoreBelow) {
  EXPECT_TRUE(store_->Publish(ctx_, Entry("a")).ok());
  EXPECT_TRUE(below_->RemoveRecord(ctx_, Id("a")).ok());
  const Digest a = BlobOf("a").digest;
  EXPECT_EQ(store_->FindMissing(ctx_, std::vector{a}).value(), std::vector{a});
}

TEST_F(ReadThroughStoreTest, ARemovedBlobIsGone) {
  EXPECT_TRUE(store_->Publish(ctx_, Entry("a")).ok());
  EXPECT_TRUE(store_->RemoveBlob(ctx_, BlobOf("a").digest).ok());
  EXPECT_EQ(store_->GetBlob(ctx_, BlobOf("a").digest).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace kiln
