// Scans and scatters as kernels, beside what runs around them: against their reference meaning, bit for bit.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "compiler/graph/interp.h"
#include "compiler/graph/text.h"
#include "compiler/lower/index.h"
#include "compiler/ops/eval.h"
#include "compiler/ops/registry.h"
#include "compiler/ops/testing.h"
#include "compiler/schedule/run_graph.h"

namespace kiln {
namespace {

constexpr int64_t kLargestIndex = 5;

// Integers are indices up to kLargestIndex. Gives the kernels.
std::vector<std::string> Check(const std::string& text) {
  absl::StatusOr<std::shared_ptr<const Graph>> graph = ParseGraph("graph inference\n" + text, ResolveOp);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  std::vector<std::string> storages;
  std::vector<HostValue> inputs;
  std::mt19937 random(7);
  for (const GraphInput& input : (*graph)->inputs()) {
    const TensorType& type = *(*graph)->type(input.value);
    HostArray array{type.dtype, {}, {}};
    for (const Sym s : type.sizes) array.sizes.push_back(*(*graph)->syms().AsConst(s));
    const int64_t n = *(*graph)->syms().AsConst(NumElements((*graph)->syms(), type.sizes));
    for (int64_t i = 0; i < n; ++i) {
      const double x = static_cast<double>(random() % 4000) / 1000 - 2;
      array.data += FromDouble(type.dtype, IsFloat(type.dtype) ? x : static_cast<double>(random() % kLargestIndex));
    }
    storages.push_back(array.data);
    inputs.push_back(std::move(array));
  }
  const absl::StatusOr<GraphResult> want = Interpret(**graph, inputs, EvalRecord);
  const absl::StatusOr<GraphRun> got =
      RunGraph(**graph, storages, {.limits = {}, .target = {.vector_bytes = 32}, .sizes = {}});
  EXPECT_TRUE(want.ok()) << want.status();
  EXPECT_TRUE(got.ok()) << got.status();
  if (!want.ok() || !got.ok()) return {};
  for (size_t o = 0; o < want->outputs.size(); ++o) {
    EXPECT_EQ(got->outputs[o], std::get<HostArray>(want->outputs[o]).data) << "output " << o;
  }
  return got->kernels;
}

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

// What is tiny is one kernel, with what runs before and after it.
TEST(Ordered, BesideOthers) {
  const auto kernels = Check(
      "%0 = input f32[6, 8]\n%1 = input i64[4]\n%2 = input f32[4, 8]\n%3 = exp(%2) : f32[4, 8]\n"
      "%4 = index_add(%0, 0, %1, %3, 1) : f32[6, 8]\n%5 = mul(%4, %4) : f32[6, 8]\nreturn %5");
  EXPECT_EQ(kernels.size(), 1u);
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
