#include "server/generalizations.h"

#include <gtest/gtest.h>

#include "cache/error_store.h"
#include "cache/fake_clock.h"
#include "cache/memory_store.h"
#include "server/testing/test_client.h"

namespace kiln {
namespace {

// A vector of `size`, and one integer.
v1::CompileRequest Request(int64_t size, int64_t literal = 7) {
  v1::CompileRequest request;
  request.mutable_graph()->add_nodes()->add_args()->set_i(literal);
  AddVectorInput(size, &request);
  return request;
}

class GeneralizationsTest : public testing::Test {
 protected:
  GeneralizationsTest()
      : metrics_("build", "version"),
        store_(NewErrorStore(NewMemoryStore({.clock = &clock_}),
                             {.fail =
                                  [this](std::string_view op) {
                                    return op == failing_ ? absl::UnavailableError("the disk is on fire")
                                                          : absl::OkStatus();
                                  }})),
        cache_(store_.get(), &metrics_, &clock_, absl::Seconds(60), NullLogger()),
        generalizations_(&cache_, "build") {}

  void Remember(std::initializer_list<int64_t> sizes, int64_t literal = 7) {
    for (const int64_t size : sizes) generalizations_.Remember(ctx_, Request(size, literal));
  }
  std::optional<v1::Generalization> Find(int64_t size, int64_t literal = 7) {
    return generalizations_.Find(ctx_, Request(size, literal));
  }
  size_t Records() { return store_->Stats(ctx_)->records[Table::kSkeletons]; }

  FakeClock clock_;
  Metrics metrics_;
  std::string failing_;  // the store's function that fails
  std::unique_ptr<Store> store_;
  ActionCache cache_;
  Generalizations generalizations_;
  RequestContext ctx_;
};

TEST_F(GeneralizationsTest, TheThirdSizeMakesOneAndLaterOnesGetIt) {
  Remember({4});
  EXPECT_FALSE(Find(6));
  Remember({6});
  const auto third = Find(9);
  ASSERT_TRUE(third);
  ASSERT_EQ(third->places_size(), 1);
  EXPECT_EQ(third->places(0).value(), 0u);
  EXPECT_EQ(Records(), 3u);
  for (const int64_t size : {2, 9, 100}) EXPECT_EQ(Find(size)->SerializeAsString(), third->SerializeAsString());
  EXPECT_EQ(Records(), 3u);
  EXPECT_FALSE(Find(1));
  EXPECT_FALSE(Find(9, 8));
}

TEST_F(GeneralizationsTest, AskingStoresNothing) {
  for (const int64_t size : {4, 6, 9, 11}) EXPECT_FALSE(Find(size));
  EXPECT_EQ(Records(), 0u);
}

TEST_F(GeneralizationsTest, NamespacesAreApart) {
  Remember({4, 6});
  ctx_.ns = "another";
  EXPECT_FALSE(Find(9));
  Remember({9});
  EXPECT_FALSE(Find(11));
  ctx_.ns = "default";
  EXPECT_TRUE(Find(11));
}

TEST_F(GeneralizationsTest, AFewOfEachKindAreKept) {
  for (int64_t size = 2; size < 40; ++size) Remember({size}, size * size * size);
  EXPECT_EQ(Records(), kMaxInstances);
  EXPECT_FALSE(Find(50));
}

TEST_F(GeneralizationsTest, FamiliesOfOneSkeletonAreBounded) {
  // Two sizes each of eight families; the third size of each makes its generalization, the ninth has no room.
  for (int64_t literal = 100; literal < 108; ++literal) Remember({4, 6}, literal);
  for (int64_t literal = 100; literal < 108; ++literal) EXPECT_TRUE(Find(9, literal)) << literal;
  EXPECT_EQ(Records(), kMaxInstances + kMaxGeneralizations);
  EXPECT_FALSE(Find(9, 99));
  EXPECT_TRUE(Find(11, 103));
}

TEST_F(GeneralizationsTest, WithoutTheStoreThereAreNone) {
  Remember({4, 6});
  failing_ = "List";
  EXPECT_FALSE(Find(9));
  failing_ = "Publish";
  EXPECT_TRUE(Find(9));
  Remember({9});
  EXPECT_EQ(Records(), 2u);
}

}  // namespace
}  // namespace kiln
