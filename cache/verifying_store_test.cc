#include "cache/verifying_store.h"

#include <gtest/gtest.h>

#include "cache/error_store.h"
#include "cache/store_testing.h"

namespace kiln {
namespace {

class VerifyingStoreTest : public ::testing::Test {
 protected:
  VerifyingStoreTest() {
    Faults faults;
    faults.corrupt = [this](std::string& bytes) {
      if (flip_) bytes[0] = static_cast<char>(bytes[0] ^ 1);
    };
    faults.fail = [this](std::string_view op) { return op == fail_op_ ? fail_ : absl::OkStatus(); };
    store_ = NewVerifyingStore(NewErrorStore(NewMemoryStore({}), faults));
    EXPECT_TRUE(store_->Publish(ctx_, Entry("a")).ok());
    EXPECT_TRUE(store_->Publish(ctx_, Entry("b")).ok());
  }

  bool flip_ = false;
  std::string fail_op_;
  absl::Status fail_;
  std::unique_ptr<Store> store_;
  RequestContext ctx_;
};

TEST_F(VerifyingStoreTest, SoundBytesPass) {
  EXPECT_EQ(store_->GetBlob(ctx_, BlobOf("a").digest).value(), BlobOf("a").bytes);
  EXPECT_EQ(store_->Stats(ctx_)->corrupt, 0u);
}

TEST_F(VerifyingStoreTest, AFlippedBitIsAMissRemovedAndCounted) {
  flip_ = true;
  EXPECT_EQ(store_->GetBlob(ctx_, BlobOf("a").digest).status().code(), absl::StatusCode::kNotFound);
  flip_ = false;
  EXPECT_EQ(store_->GetBlob(ctx_, BlobOf("a").digest).status().code(), absl::StatusCode::kNotFound) << "not removed";
  EXPECT_EQ(store_->GetRecord(ctx_, Id("a")).status().code(), absl::StatusCode::kNotFound) << "names a missing blob";
  EXPECT_TRUE(store_->GetRecord(ctx_, Id("b")).ok());
  EXPECT_EQ(store_->Stats(ctx_)->corrupt, 1u);
  EXPECT_TRUE(store_->Publish(ctx_, Entry("a")).ok());
  EXPECT_EQ(store_->GetBlob(ctx_, BlobOf("a").digest).value(), BlobOf("a").bytes) << "not repaired";
}

TEST_F(VerifyingStoreTest, DataLossBelowIsAMiss) {
  fail_ = absl::DataLossError("checksum");
  fail_op_ = "GetBlob";
  EXPECT_EQ(store_->GetBlob(ctx_, BlobOf("a").digest).status().code(), absl::StatusCode::kNotFound);
  fail_op_ = "GetRecord";
  EXPECT_EQ(store_->GetRecord(ctx_, Id("b")).status().code(), absl::StatusCode::kNotFound);
  fail_op_ = "";
  EXPECT_EQ(store_->Stats(ctx_)->corrupt, 2u);
  EXPECT_EQ(store_->Stats(ctx_)->records[Table::kActions], 0u);
}

TEST_F(VerifyingStoreTest, OtherTroublePassesAndRemovesNothing) {
  fail_ = absl::UnavailableError("disk");
  fail_op_ = "GetBlob";
  EXPECT_EQ(store_->GetBlob(ctx_, BlobOf("a").digest).status(), fail_);
  fail_op_ = "";
  EXPECT_TRUE(store_->GetBlob(ctx_, BlobOf("a").digest).ok());
}

TEST_F(VerifyingStoreTest, ALyingDigestIsRefused) {
  Blob blob = MakeBlob("x");
  blob.bytes = "y";
  EXPECT_EQ(store_->Publish(ctx_, {{blob}, {}}).code(), absl::StatusCode::kInvalidArgument);
  blob = MakeBlob("x");
  blob.digest.size = 2;
  EXPECT_EQ(store_->Publish(ctx_, {{blob}, {}}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kiln
