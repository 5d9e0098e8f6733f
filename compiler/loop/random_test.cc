// Random kernels: what every transformation of loop IR must keep.
#include <string>

#include "compiler/loop/interp.h"
#include "compiler/loop/random_kernel.h"
#include "compiler/loop/simplify.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"
#include "gtest/gtest.h"

namespace kiln::loop {
namespace {

constexpr uint64_t kKernels = 400;

// What the kernel makes of the memory of `seed`.
RandomMemory RunOn(const RandomKernel& made, const Kernel& kernel, std::span<const int64_t> sizes, uint64_t seed) {
  RandomMemory memory = MakeRandomMemory(made, seed);
  absl::StatusOr<RunStats> stats = Interpret(kernel, memory.args, sizes);
  EXPECT_TRUE(stats.ok()) << stats.status() << "\n" << ToText(kernel);
  return memory;
}

std::vector<int64_t> Permuted(const std::vector<int64_t>& sizes, const std::vector<uint32_t>& order) {
  std::vector<int64_t> out;
  for (uint32_t old : order) out.push_back(sizes[old]);
  return out;
}

TEST(RandomKernels, AreValid) {
  for (uint64_t seed = 0; seed < kKernels; ++seed) {
    RandomKernel made = MakeRandomKernel(seed);
    ASSERT_TRUE(Verify(made.kernel).ok()) << Verify(made.kernel) << "\n" << ToText(made.kernel);
  }
}

TEST(RandomKernels, PrintAndParseToTheSame) {
  for (uint64_t seed = 0; seed < kKernels; ++seed) {
    RandomKernel made = MakeRandomKernel(seed);
    const std::string text = ToText(made.kernel);
    absl::StatusOr<Kernel> parsed = ParseKernel(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status() << "\n" << text;
    ASSERT_EQ(ToText(*parsed), text);
    ASSERT_TRUE(Verify(*parsed).ok()) << Verify(*parsed);
    ASSERT_EQ(ToText(Clone(made.kernel)), text);
  }
}

TEST(RandomKernels, NormaliseToAFixedPoint) {
  for (uint64_t seed = 0; seed < kKernels; ++seed) {
    RandomKernel made = MakeRandomKernel(seed);
    Normalize(made.kernel);
    const std::string text = ToText(made.kernel);
    ASSERT_TRUE(Verify(made.kernel).ok()) << Verify(made.kernel) << "\n" << text;
    absl::StatusOr<Kernel> parsed = ParseKernel(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status() << "\n" << text;
    Normalize(*parsed);
    ASSERT_EQ(ToText(*parsed), text);
  }
}

TEST(RandomKernels, MeanTheSameInEveryForm) {
  for (uint64_t seed = 0; seed < kKernels; ++seed) {
    RandomKernel made = MakeRandomKernel(seed);
    RandomMemory want = RunOn(made, made.kernel, made.sizes, seed);

    absl::StatusOr<Kernel> parsed = ParseKernel(ToText(made.kernel));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_TRUE(SameMemory(made.kernel, want, RunOn(made, *parsed, made.sizes, seed))) << "parsed, seed " << seed;

    Kernel normal = Clone(made.kernel);
    const std::vector<uint32_t> order = Normalize(normal);
    EXPECT_TRUE(SameMemory(normal, want, RunOn(made, normal, Permuted(made.sizes, order), seed)))
        << "normalised, seed " << seed;

    Kernel simple = Clone(made.kernel);
    Simplify(simple);
    ASSERT_TRUE(Verify(simple).ok()) << Verify(simple) << "\n" << ToText(simple);
    EXPECT_TRUE(SameMemory(simple, want, RunOn(made, simple, made.sizes, seed))) << "simplified, seed " << seed << "\n"
                                                                                 << ToText(made.kernel) << "\n"
                                                                                 << ToText(simple);
  }
}

TEST(RandomKernels, SimplifyIsIdempotent) {
  for (uint64_t seed = 0; seed < kKernels; ++seed) {
    RandomKernel made = MakeRandomKernel(seed);
    Simplify(made.kernel);
    const std::string once = ToText(made.kernel);
    Simplify(made.kernel);
    ASSERT_EQ(ToText(made.kernel), once);
  }
}

TEST(RandomKernels, RunInPartsAsInOne) {
  for (uint64_t seed = 0; seed < kKernels / 4; ++seed) {
    RandomKernel made = MakeRandomKernel(seed);
    RandomMemory want = RunOn(made, made.kernel, made.sizes, seed);
    RandomMemory parts = MakeRandomMemory(made, seed);
    for (int64_t i = 0; i < made.sizes[0]; ++i) {
      ASSERT_TRUE(Interpret(made.kernel, parts.args, made.sizes, {.begin = i, .end = i + 1}).ok());
    }
    EXPECT_TRUE(SameMemory(made.kernel, want, parts));
  }
}

}  // namespace
}  // namespace kiln::loop
