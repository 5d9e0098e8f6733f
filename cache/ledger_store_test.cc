#include "cache/ledger_store.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "cache/store_testing.h"

namespace kiln {
namespace {

// Holds blobs only; `on_read` runs before a read, which it may change the answer of.
class FakeBacking : public Backing {
 public:
  absl::StatusOr<std::string> ReadBlob(const Digest& digest, absl::Duration) override {
    const auto it = blobs.find(digest);
    const absl::StatusOr<std::string> found =
        it == blobs.end() ? absl::StatusOr<std::string>(absl::NotFoundError("blob")) : it->second;
    if (on_read) std::exchange(on_read, nullptr)();
    return found;
  }
  absl::StatusOr<Record> ReadRecord(const RecordId&, absl::Duration) override { return absl::NotFoundError("record"); }
  absl::Status Write(const WriteSet& writes) override {
    for (const Blob* blob : writes.put_blobs) blobs[blob->digest] = blob->bytes;
    for (const Digest& digest : writes.delete_blobs) blobs.erase(digest);
    return absl::OkStatus();
  }
  absl::Status Recover() override { return absl::OkStatus(); }

  std::map<Digest, std::string> blobs;
  std::function<void()> on_read;
};

class LedgerStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto backing = std::make_unique<FakeBacking>();
    backing_ = backing.get();
    store_ = std::make_unique<LedgerStore>(StoreOptions(), std::move(backing), Inventory());
    ASSERT_TRUE(store_->Publish(ctx_, publication_).ok());
  }

  const RequestContext ctx_;
  const Blob blob_ = BlobOf("a", 300);
  const Publication publication_ = {{blob_}, {MakeRecord(Id("r"), "v", {blob_.digest})}};
  FakeBacking* backing_ = nullptr;
  std::unique_ptr<LedgerStore> store_;
};

// The reader looks between a removal and the next publication.
TEST_F(LedgerStoreTest, ABlobThatComesBackIsNotLost) {
  backing_->blobs.clear();
  backing_->on_read = [&] { backing_->blobs[blob_.digest] = blob_.bytes; };
  const absl::StatusOr<std::string> blob = store_->GetBlob(ctx_, blob_.digest);
  ASSERT_TRUE(blob.ok()) << blob.status();
  EXPECT_EQ(*blob, blob_.bytes);
}

TEST_F(LedgerStoreTest, ABlobThatIsRemovedMeanwhileIsNotFound) {
  backing_->on_read = [&] { ASSERT_TRUE(store_->RemoveBlob(ctx_, blob_.digest).ok()); };
  backing_->blobs.clear();
  EXPECT_EQ(store_->GetBlob(ctx_, blob_.digest).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(LedgerStoreTest, ABlobThatTheBooksHaveAloneIsLost) {
  backing_->blobs.clear();
  EXPECT_EQ(store_->GetBlob(ctx_, blob_.digest).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace kiln
