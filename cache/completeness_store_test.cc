#include "cache/completeness_store.h"

#include <gtest/gtest.h>

#include "cache/error_store.h"
#include "cache/store_testing.h"
#include "cache/verifying_store.h"

namespace kiln {
namespace {

class CompletenessStoreTest : public ::testing::Test {
 protected:
  void Make(uint64_t max_read_bytes) {
    Faults faults;
    faults.fail = [this](std::string_view op) {
      reads_ += op == "GetBlob";
      return op == "GetBlob" ? get_blob_ : absl::OkStatus();
    };
    faults.corrupt = [this](std::string& bytes) {
      if (flip_) bytes[0] = static_cast<char>(bytes[0] ^ 1);
    };
    store_ = NewCompletenessStore(NewVerifyingStore(NewErrorStore(NewMemoryStore({}), faults)), max_read_bytes);
    EXPECT_TRUE(store_->Publish(ctx_, Entry("a")).ok());
  }

  absl::Status get_blob_;
  bool flip_ = false;
  int reads_ = 0;
  std::unique_ptr<Store> store_;
  RequestContext ctx_;
};

TEST_F(CompletenessStoreTest, ACompleteRecordIsFound) {
  Make(1000);
  EXPECT_TRUE(store_->GetRecord(ctx_, Id("a")).ok());
  EXPECT_EQ(reads_, 1);
}

TEST_F(CompletenessStoreTest, ARecordOfACorruptBlobIsNotFoundAndGone) {
  Make(1000);
  flip_ = true;
  EXPECT_EQ(store_->GetRecord(ctx_, Id("a")).status().code(), absl::StatusCode::kNotFound);
  flip_ = false;
  EXPECT_EQ(store_->GetRecord(ctx_, Id("a")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->Stats(ctx_)->corrupt, 1u);
  EXPECT_EQ(store_->Stats(ctx_)->incomplete, 1u);
}

TEST_F(CompletenessStoreTest, AllCorruptBlobsOfARecordAreFoundAtOnce) {
  Make(1000);
  const Blob one = BlobOf("one"), two = BlobOf("two");
  const Publication both = {{one, two},
                            {MakeRecord(Id("both"), "value", {one.digest, two.digest}),
                             MakeRecord(Id("other"), "keeps the second", {two.digest})}};
  ASSERT_TRUE(store_->Publish(ctx_, both).ok());
  flip_ = true;
  EXPECT_EQ(store_->GetRecord(ctx_, Id("both")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->FindMissing(ctx_, std::vector{one.digest, two.digest})->size(), 2u);
  EXPECT_EQ(store_->Stats(ctx_)->corrupt, 2u);
}

TEST_F(CompletenessStoreTest, ARecordOfAMissingBlobIsNotFoundAndGone) {
  Make(1000);
  get_blob_ = absl::NotFoundError("gone");
  EXPECT_EQ(store_->GetRecord(ctx_, Id("a")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->Stats(ctx_)->incomplete, 1u);
  EXPECT_EQ(store_->Stats(ctx_)->records[Table::kActions], 0u);
}

TEST_F(CompletenessStoreTest, TroubleIsNotAMiss) {
  Make(1000);
  get_blob_ = absl::UnavailableError("disk");
  EXPECT_EQ(store_->GetRecord(ctx_, Id("a")).status(), get_blob_);
  get_blob_ = absl::OkStatus();
  EXPECT_TRUE(store_->GetRecord(ctx_, Id("a")).ok());
}

TEST_F(CompletenessStoreTest, LargeBlobsAreOnlyLookedFor) {
  Make(99);
  EXPECT_TRUE(store_->GetRecord(ctx_, Id("a")).ok());
  EXPECT_EQ(reads_, 0);
}

}  // namespace
}  // namespace kiln
