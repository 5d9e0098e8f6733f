#include "client/cpp/team.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace kiln {
namespace {

constexpr int kSpins = 2000;  // some 20 µs, before a thread that waits gives up its processor
constexpr uint32_t kBits = 64;

void RunRange(KernelCall& call, uint32_t range) {
  const auto extent = static_cast<uint64_t>(call.extent);
  const uint64_t length = extent / call.ranges + (extent % call.ranges != 0);
  const uint64_t begin = std::min(extent, length * range), end = std::min(extent, begin + length);
  if (begin == end) return;
  call.kernel(call.buffers, call.sizes, static_cast<int64_t>(begin), static_cast<int64_t>(end), &call.error);
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

struct Team {
  std::span<KernelCall> calls;
  uint64_t* claims;  // bit r of call c's words: somebody runs range r, or has run it
  uint32_t words;    // a call

  bool Claim(size_t call, uint32_t range) const {
    std::atomic_ref<uint64_t> word(claims[call * words + range / kBits]);
    const uint64_t bit = uint64_t{1} << (range % kBits);
    return (word.load(std::memory_order_relaxed) & bit) == 0 &&
           (word.fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
  }

  // What thread `self` does. It waits only for ranges that a running thread has claimed.
  void Run(uint32_t self) const {
    for (size_t c = 0; c < calls.size(); ++c) {
      KernelCall& call = calls[c];
      std::atomic_ref<uint32_t> finished(call.finished);
      for (uint32_t i = 0; i < call.ranges; ++i) {
        const uint32_t range = (self + i) % call.ranges;
        if (!Claim(c, range)) continue;
        RunRange(call, range);
        finished.fetch_add(1, std::memory_order_release);
      }
      if (c + 1 == calls.size()) return;  // the pool waits for its threads
      for (int spins = 0; finished.load(std::memory_order_acquire) != call.ranges; ++spins) {
        if (spins < kSpins) {
          Pause();
        } else {
          std::this_thread::yield();
        }
      }
      if (call.error != 0) return;
    }
  }
};

void Enter(int64_t begin, int64_t, void* team) { static_cast<const Team*>(team)->Run(static_cast<uint32_t>(begin)); }

uint32_t Threads(const TorchApi& api) {
  uint32_t threads = 1;
  const bool known = api.parallel_for != nullptr && api.num_threads != nullptr && api.num_threads(&threads) == 0;
  return known ? std::max(threads, 1u) : 1;
}

}  // namespace

absl::Status RunCalls(const TorchApi& api, std::span<KernelCall> calls, TeamClaims& claims) {
  const uint32_t threads = Threads(api);
  uint32_t most = 0;
  for (KernelCall& call : calls) {
    const int64_t wanted = call.extent / call.grain + (call.extent % call.grain != 0);
    call.ranges = static_cast<uint32_t>(std::min<int64_t>(wanted, threads));
    call.finished = 0;
    most = std::max(most, call.ranges);
  }
  if (most <= 1) {
    for (KernelCall& call : calls) {
      if (call.ranges == 1) RunRange(call, 0);
      if (call.error != 0) break;
    }
    return absl::OkStatus();
  }
  Team team{.calls = calls, .claims = nullptr, .words = (most + kBits - 1) / kBits};
  claims.assign(calls.size() * team.words, 0);
  team.claims = claims.data();
  if (api.parallel_for(0, most, 1, Enter, &team) != 0) return api.Error("parallel_for");
  return absl::OkStatus();
}

}  // namespace kiln
