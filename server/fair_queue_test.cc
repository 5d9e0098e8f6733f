#include "server/fair_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kiln {
namespace {

using Item = const std::string;
Item a1 = "a1", a2 = "a2", a3 = "a3", b1 = "b1", b2 = "b2", c1 = "c1";
constexpr uint64_t kA = 1, kB = 2, kC = 3;

std::string PopAll(FairQueue<Item>& q) {
  std::string out;
  while (Item* item = q.Pop()) out += (out.empty() ? "" : " ") + *item;
  return out;
}

TEST(FairQueues, CompilesTakeTurns) {
  FairQueue<Item> q;
  for (Item* i : {&a1, &a2, &a3}) q.PushBack(i, kA, Priority::kNormal);
  for (Item* i : {&b1, &b2}) q.PushBack(i, kB, Priority::kNormal);
  q.PushBack(&c1, kC, Priority::kNormal);
  EXPECT_EQ(q.size(), 6u);
  EXPECT_EQ(PopAll(q), "a1 b1 c1 a2 b2 a3");
  EXPECT_TRUE(q.empty());
}

TEST(FairQueues, HighPriorityFirst) {
  FairQueue<Item> q;
  q.PushBack(&a1, kA, Priority::kNormal);
  q.PushBack(&b1, kB, Priority::kHigh);
  q.PushBack(&a2, kA, Priority::kHigh);
  EXPECT_EQ(PopAll(q), "b1 a2 a1");
}

TEST(FairQueues, FrontIsNext) {
  FairQueue<Item> q;
  q.PushBack(&a1, kA, Priority::kNormal);
  q.PushBack(&b1, kB, Priority::kNormal);
  q.PushFront(&b2, kB, Priority::kNormal);
  q.PushFront(&c1, kC, Priority::kNormal);
  EXPECT_EQ(PopAll(q), "c1 b2 a1 b1");
}

TEST(FairQueues, RemovedItemsAreNotServed) {
  FairQueue<Item> q;
  q.PushBack(&a1, kA, Priority::kNormal);
  q.PushBack(&a2, kA, Priority::kNormal);
  q.PushBack(&b1, kB, Priority::kNormal);
  EXPECT_TRUE(q.Remove(&a1, kA, Priority::kNormal));
  EXPECT_FALSE(q.Remove(&a1, kA, Priority::kNormal));
  EXPECT_TRUE(q.Remove(&b1, kB, Priority::kNormal));
  EXPECT_FALSE(q.Remove(&b1, kB, Priority::kHigh));
  EXPECT_EQ(PopAll(q), "a2");
}

}  // namespace
}  // namespace kiln
