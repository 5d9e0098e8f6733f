// Whole kernels, generated for every target, against the interpreter.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "compiler/codegen/cpu/native_run.h"
#include "compiler/codegen/cpu/object.h"
#include "compiler/loop/text.h"

namespace kiln {
namespace {

using Bytes = std::vector<uint8_t>;

template <typename T>
Bytes AsBytes(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
Bytes Zeros(int64_t count) {
  return Bytes(static_cast<size_t>(count) * sizeof(T));
}

Bytes Floats(int64_t count, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> draw(-4, 4);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = draw(random);
  return AsBytes(values);
}

[[maybe_unused]] Bytes Integers(int64_t count, int64_t low, int64_t high, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int64_t> draw(low, high);
  std::vector<int64_t> values(static_cast<size_t>(count));
  for (int64_t& value : values) value = draw(random);
  return AsBytes(values);
}

constexpr char kRelu[] = R"(kernel {
  sizes s0 in [0, inf)
  buffer b0: f32[s0] read
  buffer b1: f32[s0] write
  parallel i0 in 0..(s0 + 255)//256 grain 1 {
    vector i1 in 0..min(256, s0 - 256*i0) width 16 {
      v0: f32 = load b0[256*i0 + i1]
      v1: f32 = const 0x1p+1
      v2: f32 = mul v0, v1
      v3: f32 = const 0x1p+0
      v4: f32 = add v2, v3
      v5: f32 = const 0x0p+0
      v6: f32 = max v4, v5
      store b1[256*i0 + i1] = v6
    }
  }
}
)";

TEST(Kernel, ReluOfAffineForEverySize) {
  std::vector<NativeCase> cases;
  for (const int64_t n : {0, 1, 7, 15, 16, 17, 255, 256, 257, 1000}) {
    cases.push_back({{Floats(n), Zeros<float>(n)}, {n}, 3});
  }
  EXPECT_EQ(CompareWithInterpreter(kRelu, cases), absl::OkStatus());
}

TEST(Kernel, UsesTheVectorRegistersOfItsTarget) {
  const auto kernel = loop::ParseKernel(kRelu);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  for (const auto& [target, reg, other] : {std::tuple("x86-64-v2", "%xmm", "%ymm"), std::tuple("x86-64-v3", "%ymm", "%zmm"),
                                           std::tuple("x86-64-v4", "%zmm", "%tmm")}) {
    const auto text = AssemblyText(*kernel, "kernel", target);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_NE(text->find(reg), std::string::npos) << *text;
    EXPECT_EQ(text->find(other), std::string::npos) << *text;
    EXPECT_EQ(text->find("call"), std::string::npos) << *text;
  }
}

}  // namespace
}  // namespace kiln
