#include "cache/compressing_store.h"

#include <gtest/gtest.h>

#include <random>

#include "cache/error_store.h"
#include "cache/store_testing.h"

namespace kiln {
namespace {

std::string Noise(size_t size) {
  std::mt19937 random(1);
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(random());
  return out;
}

class CompressingStoreTest : public ::testing::Test {
 protected:
  // What is put, and how many bytes it takes below.
  uint64_t Put(Store& store, const std::string& content) {
    const uint64_t before = store.Stats(ctx_)->bytes;
    EXPECT_TRUE(store.Publish(ctx_, {{MakeBlob(content)}, {}}).ok());
    EXPECT_EQ(store.GetBlob(ctx_, Digest::Of(content)).value(), content);
    return store.Stats(ctx_)->bytes - before - sizeof(Digest);
  }

  RequestContext ctx_;
};

TEST_F(CompressingStoreTest, ContentsComeBackAndTakeLess) {
  const std::unique_ptr<Store> store = NewCompressingStore(NewMemoryStore({}), {});
  EXPECT_LT(Put(*store, std::string(100000, 'x')), 100u);
  EXPECT_EQ(Put(*store, ""), 1u);
  EXPECT_EQ(Put(*store, std::string(511, 'x')), 512u) << "small";
  EXPECT_LT(Put(*store, std::string(512, 'x')), 100u);
  EXPECT_EQ(Put(*store, Noise(100000)), 100001u) << "does not shrink";
}

TEST_F(CompressingStoreTest, LevelZeroReadsWhatWasCompressed) {
  TempDir dir;
  const std::string content(10000, 'x');
  for (int level : {3, 0}) {
    const std::unique_ptr<Store> store =
        NewCompressingStore(OpenRocksDbStore(dir.path(), {}).value(), {.level = level});
    if (level != 0) Put(*store, content);
    if (level == 0) EXPECT_EQ(Put(*store, content + "y"), 10002u);
    EXPECT_EQ(store->GetBlob(ctx_, Digest::Of(content)).value(), content);
  }
}

TEST_F(CompressingStoreTest, SizesAreBounded) {
  const std::unique_ptr<Store> store = NewCompressingStore(NewMemoryStore({}), {.max_size = 1000});
  Put(*store, std::string(1000, 'x'));
  EXPECT_EQ(store->Publish(ctx_, {{MakeBlob(std::string(1001, 'x'))}, {}}).code(), absl::StatusCode::kInvalidArgument);
}

// A stored frame that says it is huge is not believed.
TEST_F(CompressingStoreTest, ABombIsDataLoss) {
  std::string bomb;
  {
    const std::unique_ptr<Store> store = NewCompressingStore(
        NewErrorStore(NewMemoryStore({}), {.corrupt = [&](std::string& bytes) { bomb = bytes; }}), {});
    Put(*store, std::string(1 << 20, '\0'));
  }
  const std::unique_ptr<Store> store = NewCompressingStore(
      NewErrorStore(NewMemoryStore({}), {.corrupt = [&](std::string& bytes) { bytes = bomb; }}), {});
  const Blob small = MakeBlob("small");
  EXPECT_TRUE(store->Publish(ctx_, {{small}, {}}).ok());
  EXPECT_EQ(store->GetBlob(ctx_, small.digest).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(CompressingStoreTest, GarbledBytesAreDataLossOrTheSameSize) {
  for (const std::string& content : {std::string(5000, 'x') + Noise(100), std::string("short")}) {
    for (size_t at = 0; at < 40; ++at) {
      const auto flip = [&](std::string& bytes) {
        bytes[at % bytes.size()] = static_cast<char>(~bytes[at % bytes.size()]);
      };
      const auto cut = [&](std::string& bytes) { bytes.resize(at % bytes.size()); };
      for (const std::function<void(std::string&)>& garble : {std::function<void(std::string&)>(flip), {cut}}) {
        const std::unique_ptr<Store> store =
            NewCompressingStore(NewErrorStore(NewMemoryStore({}), {.corrupt = garble}), {});
        const Blob blob = MakeBlob(content);
        EXPECT_TRUE(store->Publish(ctx_, {{blob}, {}}).ok());
        const absl::StatusOr<std::string> got = store->GetBlob(ctx_, blob.digest);
        if (got.ok()) EXPECT_EQ(got->size(), content.size());  // for the verifying layer to find
        if (!got.ok()) EXPECT_EQ(got.status().code(), absl::StatusCode::kDataLoss);
      }
    }
  }
}

}  // namespace
}  // namespace kiln
