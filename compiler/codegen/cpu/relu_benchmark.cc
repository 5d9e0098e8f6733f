// relu(x*2 + 1) over 16M floats in blocks that stay in the L1 cache: generated code beside intrinsics by hand.
#include <gtest/gtest.h>
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "compiler/codegen/cpu/native_run.h"
#include "compiler/loop/text.h"

namespace kiln {
namespace {

constexpr int64_t kBlock = 2048;
constexpr int64_t kRepeats = (16 << 20) / kBlock;

constexpr char kRelu[] = R"(kernel {
  sizes s0 in [0, inf)
  buffer b0: f32[2048*s0] read
  buffer b1: f32[2048*s0] write
  parallel i0 in 0..s0 grain 1 {
    vector i1 in 0..2048 width 16 {
      v0: f32 = load b0[2048*i0 + i1]
      v1: f32 = const 0x1p+1
      v2: f32 = mul v0, v1
      v3: f32 = const 0x1p+0
      v4: f32 = add v2, v3
      v5: f32 = const 0x0p+0
      v6: f32 = max v4, v5
      store b1[2048*i0 + i1] = v6
    }
  }
}
)";

__attribute__((target("avx2"), noinline)) void ByHandAvx2(const float* x, float* y, int64_t n) {
  const __m256 two = _mm256_set1_ps(2), one = _mm256_set1_ps(1), zero = _mm256_setzero_ps();
  for (int64_t i = 0; i < n; i += 8) {
    const __m256 value = _mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), two), one);
    _mm256_storeu_ps(y + i, _mm256_max_ps(zero, value));
  }
}

__attribute__((target("avx512f"), noinline)) void ByHandAvx512(const float* x, float* y, int64_t n) {
  const __m512 two = _mm512_set1_ps(2), one = _mm512_set1_ps(1), zero = _mm512_setzero_ps();
  for (int64_t i = 0; i < n; i += 16) {
    const __m512 value = _mm512_add_ps(_mm512_mul_ps(_mm512_loadu_ps(x + i), two), one);
    _mm512_storeu_ps(y + i, _mm512_maskz_max_ps(0xffff, zero, value));
  }
}

template <typename F>
double BestSeconds(F run) {
  double best = 1e9;
  for (int i = 0; i < 30; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t k = 0; k < kRepeats; ++k) run();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

class Relu : public testing::TestWithParam<std::pair<const char*, void (*)(const float*, float*, int64_t)>> {};

TEST_P(Relu, IsWithinATenthOfIntrinsics) {
  const auto [target, by_hand] = GetParam();
  if (!HostRuns(target)) GTEST_SKIP() << target;
  const auto kernel = loop::ParseKernel(kRelu);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  auto native = NativeKernel::Compile(*kernel, target);
  ASSERT_TRUE(native.ok()) << native.status();
  // Cache lines whole, and no load of the one at the page offset of a store to the other: both codes get the same.
  alignas(64) static float memory[2 * kBlock + 512];
  float* const x = memory;
  float* const y = memory + kBlock + 512;
  std::fill_n(x, kBlock, -0.25f);
  void* buffers[] = {x, y};
  const int64_t sizes[] = {1};
  int64_t error = 0;
  const double generated = BestSeconds([&] { native->function()(buffers, sizes, 0, 1, &error); });
  EXPECT_EQ(std::count(y, y + kBlock, 0.5f), kBlock);
  const double intrinsics = BestSeconds([&, f = by_hand] { f(x, y, kBlock); });
  std::printf("%s: generated %.3f ms, intrinsics %.3f ms\n", target, generated * 1e3, intrinsics * 1e3);
  EXPECT_LE(generated, 1.1 * intrinsics);
}

INSTANTIATE_TEST_SUITE_P(Targets, Relu,
                         testing::Values(std::pair("x86-64-v3", &ByHandAvx2), std::pair("x86-64-v4", &ByHandAvx512)));

}  // namespace
}  // namespace kiln
