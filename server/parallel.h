// A loop whose iterations wait for something, spread over a few threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace kiln {

// Calls body(i) once for each i < n, in about that order, on at most `threads` threads, this one among them. Returns
// when all have returned. `body` must not throw.
inline void ParallelFor(size_t n, size_t threads, const std::function<void(size_t)>& body) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < n;) body(i);
  };
  std::vector<std::jthread> others;
  for (size_t t = 1; t < std::min(n, threads); ++t) others.emplace_back(work);
  work();
}

}  // namespace kiln
