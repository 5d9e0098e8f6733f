#include "server/parallel.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(Parallel, EveryIndexOnce) {
  for (const size_t n : {0, 1, 5, 100}) {
    for (const size_t threads : {1, 3, 200}) {
      std::vector<std::atomic<int>> calls(n);
      ParallelFor(n, threads, [&](size_t i) { ++calls[i]; });
      for (const std::atomic<int>& c : calls) EXPECT_EQ(c, 1);
    }
  }
}

TEST(Parallel, RunsSideBySide) {
  std::atomic<int> inside = 0;
  // Ends only if all three are there at one time.
  ParallelFor(3, 3, [&](size_t) {
    ++inside;
    while (inside < 3) std::this_thread::yield();
  });
  EXPECT_EQ(inside, 3);
}

}  // namespace
}  // namespace kiln
