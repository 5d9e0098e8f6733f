// Indices that are data: reads of rows by number, and what happens when the number is wrong.
#include <gtest/gtest.h>

#include "compiler/codegen/cpu/native_run.h"
#include "compiler/loop/text.h"

namespace kiln {
namespace {

constexpr char kEmbedding[] = R"(kernel {
  sizes s0 in [0, inf), s1 in [0, inf)
  buffer b0: i64[s0] read
  buffer b1: f32[8*s1] read
  buffer b2: f32[8*s0] write
  buffer b3: f32[s0] write
  parallel i0 in 0..1 grain 1 {
    serial i1 in 0..s0 {
      v0: i64 = load b0[i1]
      v1: i64 = check_index v0 in s1
      vector i2 in 0..8 width 8 {
        v2: f32 = load b1[8*v1 + i2]
        store b2[8*i1 + i2] = v2
      }
    }
    vector i3 in 0..s0 width 16 {
      v3: i64 = load b0[i3]
      v4: i64 = check_index v3 in s1
      v5: f32 = load b1[8*v4 + 3]
      store b3[i3] = v5
    }
  }
}
)";

TEST(CheckIndex, LooksUpRowsByIndex) {
  std::vector<NativeCase> cases;
  for (const auto& [n, rows] : {std::pair(21, 5), std::pair(16, 1), std::pair(0, 0)}) {
    cases.push_back(
        {{RandomIntegers(n, 0, rows - 1), RandomFloats(8 * rows), Zeros<float>(8 * n), Zeros<float>(n)}, {n, rows}, 1});
    // Bad indices are reported and read row 0.
    if (rows > 0) {
      cases.push_back(
          {{RandomIntegers(n, -2, rows), RandomFloats(8 * rows), Zeros<float>(8 * n), Zeros<float>(n)}, {n, rows}, 1});
    }
  }
  EXPECT_EQ(CompareWithInterpreter(kEmbedding, cases), absl::OkStatus());
}

TEST(CheckIndex, BadIndexIntoAnEmptyBufferReadsNothing) {
  const auto kernel = loop::ParseKernel(kEmbedding);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  for (const char* target : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    if (!HostRuns(target)) continue;
    auto native = NativeKernel::Compile(*kernel, target);
    ASSERT_TRUE(native.ok()) << native.status();
    std::vector<int64_t> indices(20, 0);
    std::vector<float> rows(160, 5), elements(20, 5);
    void* buffers[] = {indices.data(), nullptr, rows.data(), elements.data()};
    const int64_t sizes[] = {20, 0};
    int64_t error = 0;
    native->function()(buffers, sizes, 0, 1, &error);
    EXPECT_EQ(error, 1);
    EXPECT_EQ(rows, std::vector<float>(160));
    EXPECT_EQ(elements, std::vector<float>(20));
  }
}

// The first error stays; a good run leaves the word alone.
TEST(CheckIndex, ErrorWordNamesTheFirstFailedCheck) {
  const auto kernel = loop::ParseKernel(R"(kernel {
  buffer b0: i64[16] read
  buffer b1: i64[16] write
  parallel i0 in 0..1 grain 1 {
    vector i1 in 0..16 width 8 {
      v0: i64 = load b0[i1]
      v1: i64 = check_index v0 in 100
      v2: i64 = check_index v0 in 10
      v3: i64 = add v1, v2
      store b1[i1] = v3
    }
  }
}
)");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  auto native = NativeKernel::Compile(*kernel, "x86-64-v2");
  ASSERT_TRUE(native.ok()) << native.status();
  std::vector<int64_t> indices(16, 3), out(16);
  void* buffers[] = {indices.data(), out.data()};
  int64_t error = 0;
  native->function()(buffers, nullptr, 0, 1, &error);
  EXPECT_EQ(error, 0);
  indices[12] = 50;
  native->function()(buffers, nullptr, 0, 1, &error);
  EXPECT_EQ(error, 2);
  EXPECT_EQ(out[12], 50);
  indices[11] = -1;
  native->function()(buffers, nullptr, 0, 1, &error);
  EXPECT_EQ(error, 2);
}

}  // namespace
}  // namespace kiln
