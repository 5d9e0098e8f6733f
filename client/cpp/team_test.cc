#include "client/cpp/team.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <thread>

#include "client/cpp/fake_torch.h"

namespace kiln {
namespace {

// buffers: x, y. y[i] = x[n - 1 - i] + 1, where n = sizes[0]: range r of one call reads what another range of the call
// before has written.
void Mirror(void* const* buffers, const int64_t* sizes, int64_t begin, int64_t end, int64_t*) {
  const auto* x = static_cast<const int64_t*>(buffers[0]);
  auto* y = static_cast<int64_t*>(buffers[1]);
  for (int64_t i = begin; i < end; ++i) y[i] = x[sizes[0] - 1 - i] + 1;
}

void FailAt7(void* const*, const int64_t*, int64_t begin, int64_t end, int64_t* error) {
  if (begin <= 7 && 7 < end) *error = 5;
}

// Pools: all threads; one thread, for everybody's ranges; one that goes on alone until it is done.
int32_t Alone(int64_t begin, int64_t end, int64_t, ParallelBody* body, void* context) {
  body(begin, end, context);
  return 0;
}
int32_t InTurn(int64_t begin, int64_t end, int64_t, ParallelBody* body, void* context) {
  for (int64_t i = end; i-- > begin;) body(i, i + 1, context);
  return 0;
}
int32_t OneEach(int64_t begin, int64_t end, int64_t, ParallelBody* body, void* context) {
  std::vector<std::thread> threads;
  for (int64_t i = begin; i < end; ++i) threads.emplace_back(body, i, i + 1, context);
  for (std::thread& thread : threads) thread.join();
  return 0;
}

using Memory = std::vector<std::vector<int64_t>>;

// A chain of calls over n elements, each with its own grain.
Memory RunChain(const TorchApi& api, int64_t n, const std::vector<int64_t>& grains) {
  Memory memory(grains.size() + 1, std::vector<int64_t>(static_cast<size_t>(n)));
  std::iota(memory[0].begin(), memory[0].end(), 0);
  std::vector<std::array<void*, 2>> buffers;
  for (size_t c = 0; c < grains.size(); ++c) buffers.push_back({memory[c].data(), memory[c + 1].data()});
  std::vector<KernelCall> calls;
  for (size_t c = 0; c < grains.size(); ++c) {
    calls.push_back({.kernel = Mirror, .buffers = buffers[c].data(), .sizes = &n, .extent = n, .grain = grains[c]});
  }
  TeamClaims claims(3, 99);  // of another run
  EXPECT_EQ(RunCalls(api, calls, claims), absl::OkStatus());
  return memory;
}

TEST(Team, CallsSeeWhatThoseBeforeHaveWritten) {
  for (auto* pool : {Alone, InTurn, OneEach}) {
    for (const uint32_t threads : {1u, 3u, 64u, 100u}) {
      TorchApi api = FakeTorch();
      api.parallel_for = pool;
      static uint32_t say;
      say = threads;
      api.num_threads = [](uint32_t* out) { return *out = say, 0; };
      for (const int64_t n : {0, 1, 5, 1000}) {
        const Memory memory = RunChain(api, n, {1, 1, 1000, 7, 1, int64_t{1} << 62});
        for (int64_t i = 0; i < n; ++i) EXPECT_EQ(memory[6][static_cast<size_t>(i)], i + 6) << n << " " << threads;
      }
    }
  }
}

// What comes after it is not run: all three would fail at extent 8.
TEST(Team, ErrorsAreTheirCallsAndEndTheRun) {
  for (const int64_t grain : {1, 8}) {
    std::vector<KernelCall> calls(
        3, {.kernel = FailAt7, .buffers = nullptr, .sizes = nullptr, .extent = 8, .grain = grain});
    calls[0].extent = 7;
    TeamClaims claims;
    EXPECT_EQ(RunCalls(FakeTorch(), calls, claims), absl::OkStatus());
    EXPECT_EQ((std::array{calls[0].error, calls[1].error, calls[2].error}), (std::array<int64_t, 3>{0, 5, 0}));
  }
}

// A torch that does not say how many threads it has.
TEST(Team, WithoutAPool) {
  TorchApi api = FakeTorch();
  api.num_threads = nullptr;
  EXPECT_EQ(RunChain(api, 10, {1, 1})[2], RunChain(FakeTorch(), 10, {1, 1})[2]);
}

TEST(Team, ThePoolsErrors) {
  TorchApi api = FakeTorch();
  api.parallel_for = [](int64_t, int64_t, int64_t, ParallelBody*, void*) { return 1; };
  std::vector<KernelCall> calls(1, {.kernel = FailAt7, .buffers = nullptr, .sizes = nullptr, .extent = 7, .grain = 1});
  TeamClaims claims;
  EXPECT_FALSE(RunCalls(api, calls, claims).ok());
}

}  // namespace
}  // namespace kiln
