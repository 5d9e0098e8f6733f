// Time of the functions of mathlib over blocks that stay in the L1 cache, in nanoseconds and in cycles of the time
// stamp counter.
#include <gtest/gtest.h>
#include <x86intrin.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "compiler/codegen/cpu/mathlib_kernel.h"
#include "compiler/mathlib/function.h"

namespace kiln {
namespace {

template <typename T>
void Measure(const mathlib::Function& function, DType type) {
  constexpr int kBlock = 1024, kRepeats = 200, kRounds = 25;
  const auto kernel = MathlibKernel::Compile(function.op, type);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::mt19937 random(1);
  std::uniform_real_distribution<T> draw(T(0.01), T(0.99));
  std::vector<T> x(kBlock), y(kBlock), result(kBlock);
  for (T& value : x) value = draw(random);
  for (T& value : y) value = draw(random);
  double seconds = 1e9, cycles = 1e18;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    const uint64_t stamp = __rdtsc();
    for (int i = 0; i < kRepeats; ++i) kernel->Run(x.data(), y.data(), result.data(), kBlock);
    cycles = std::min(cycles, static_cast<double>(__rdtsc() - stamp));
    seconds = std::min(seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::printf("%-8s %s %7.3f ns %7.2f cycles\n", std::string(loop::Name(function.op)).c_str(),
              std::string(Name(type)).c_str(), seconds * 1e9 / kBlock / kRepeats, cycles / kBlock / kRepeats);
}

TEST(MathlibBenchmark, TimeAnElement) {
  for (const mathlib::Function* function : mathlib::AllFunctions()) {
    Measure<float>(*function, DType::kFloat32);
    Measure<double>(*function, DType::kFloat64);
  }
}

}  // namespace
}  // namespace kiln
