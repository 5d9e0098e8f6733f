// Scans and scatters as kernels, beside what runs around them: against their reference meaning, bit for bit.
#include <gtest/gtest.h>

#include "compiler/schedule/testing.h"

namespace kiln {
namespace {

std::vector<std::string> Check(const std::string& text) { return CheckRun(text).kernels; }

TEST(Ordered, ScansOfRowsAndColumns) {
  for (const char* dim : {"0", "1", "2"}) {
    const auto kernels =
        Check("%0 = input f32[3, 70, 40]\n%1 = cumsum(%0, " + std::string(dim) + ", none) : f32[3, 70, 40]\nreturn %1");
    EXPECT_EQ(kernels.size(), 1u) << dim;
  }
  Check(
      "%0 = input bf16[1, 70]\n%1 = cumsum(%0, 0, none) : bf16[1, 70]\n"
      "%2 = cumprod(%0, 1, none) : bf16[1, 70]\nreturn %1, %2");
  Check("%0 = input f32[0, 4]\n%1 = cumsum(%0, 0, none) : f32[0, 4]\nreturn %1");
}

// One to fill, one to add, where the vector axis goes along the rows.
TEST(Ordered, EmbeddingBackward) {
  const auto kernels = Check(
      "%0 = input f32[2, 300, 384]\n%1 = input i64[2, 300]\n"
      "%2 = embedding_dense_backward(%0, %1, 500, 3, false) : f32[500, 384]\nreturn %2");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_NE(kernels[1].find("vector"), std::string::npos) << kernels[1];
  Check(
      "%0 = input bf16[1, 7]\n%1 = input i64[1]\n"
      "%2 = embedding_dense_backward(%0, %1, 6, -1, false) : bf16[6, 7]\nreturn %2");
}

TEST(Ordered, BetweenOthers) {
  const auto kernels = Check(
      "%0 = input f32[6, 8]\n%1 = input i64[4]\n%2 = input f32[4, 8]\n%3 = exp(%2) : f32[4, 8]\n"
      "%4 = index_add(%0, 0, %1, %3, 1) : f32[6, 8]\n%5 = mul(%4, %4) : f32[6, 8]\nreturn %5");
  EXPECT_EQ(kernels.size(), 3u);
}

// Dims of one element have no axis.
TEST(Ordered, OneElement) {
  for (const char* indices : {"3", "1", "0"}) {
    const std::string n(indices);
    Check("%0 = input f64[1]\n%1 = input f64[" + n + "]\n%2 = full([" + n +
          "], 0, dtype:i64, none, none, none) : i64[" + n +
          "]\n%3 = exp(%0) : f64[1]\n%4 = scatter(%3, 0, %2, 0) : f64[1]\n" +
          "%5 = scatter_add(%4, 0, %2, %1) : f64[1]\n%6 = neg(%5) : f64[1]\nreturn %6, %4");
  }
}

TEST(Ordered, Places) {
  const std::string self = "%0 = input f32[6, 9]\n";
  Check(self +
        "%1 = input i64[3, 2]\n%2 = input f32[2, 9]\n"
        "%3 = index_put(%0, [%1], %2, true) : f32[6, 9]\nreturn %3");
  Check(self +
        "%1 = input i64[20]\n%2 = input i64[20]\n%3 = input f32[20]\n"
        "%4 = index_put(%0, [%1, %2], %3, true) : f32[6, 9]\nreturn %4");
  Check(self + "%1 = input i64[4, 9]\n%2 = input f32[4, 9]\n%3 = scatter(%0, 0, %1, %2) : f32[6, 9]\nreturn %3");
  Check(self + "%1 = input i64[4, 7]\n%2 = input f32[4, 9]\n%3 = scatter_add(%0, 1, %1, %2) : f32[6, 9]\nreturn %3");
  // Two dims in order, an inner one in any.
  Check(
      "%0 = input f32[6, 6, 5]\n%1 = input i64[3, 4]\n%2 = input i64[3, 4]\n%3 = input f32[3, 4, 5]\n"
      "%4 = index_put(%0, [%1, %2], %3, false) : f32[6, 6, 5]\nreturn %4");
}

}  // namespace
}  // namespace kiln
