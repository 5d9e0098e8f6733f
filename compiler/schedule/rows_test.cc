// Row patterns as one kernel: each array is read once and written once, counted by the loop interpreter.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "compiler/graph/text.h"
#include "compiler/lower/index.h"
#include "compiler/ops/registry.h"
#include "compiler/pipeline/graph_passes.h"
#include "compiler/schedule/run_graph.h"
#include "compiler/schedule/testing.h"

namespace kiln {
namespace {

constexpr uint64_t kRows = 20, kColumns = 96, kAll = kRows * kColumns;

void ExpectNear(const std::vector<std::string>& want, const std::vector<std::string>& got, const char* target) {
  for (size_t o = 0; o < want.size(); ++o) {
    for (size_t i = 0; i + 4 <= want[o].size(); i += 4) {
      float a, b;
      std::memcpy(&a, &want[o][i], 4);
      std::memcpy(&b, &got[o][i], 4);
      ASSERT_NEAR(a, b, 2e-5 * std::max(1.0f, std::fabs(a))) << target << ", output " << o << " element " << i / 4;
    }
  }
}

// The graph after all passes on random inputs; nodes one by one must give the same within rounding.
GraphRun RunFused(std::string_view text) {
  GraphRun run;
  absl::StatusOr<std::shared_ptr<const Graph>> graph = ParseGraph(text, ResolveOp);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return run;
  graph = RunGraphPasses(*std::move(graph), {});
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return run;
  std::vector<std::string> inputs;
  std::mt19937 random(3);
  for (const GraphInput& input : (*graph)->inputs()) {
    const TensorType& type = *(*graph)->type(input.value);
    const int64_t n = *(*graph)->syms().AsConst(StorageSize((*graph)->syms(), type));
    std::string bytes(n * ByteSize(type.dtype), '\0');
    for (int64_t i = 0; i < n; ++i) {
      const auto x = static_cast<float>(random() % 4000) / 1000 - 2;
      const auto k = static_cast<int64_t>(random() % kColumns);
      if (type.dtype == DType::kFloat32) std::memcpy(&bytes[i * 4], &x, 4);
      if (type.dtype == DType::kInt64) std::memcpy(&bytes[i * 8], &k, 8);
    }
    inputs.push_back(std::move(bytes));
  }
  const RunGraphOptions alone{
      .limits = {.group_nodes = 1, .bundle = false}, .target = {.vector_bytes = 32}, .sizes = {}};
  absl::StatusOr<GraphRun> want = RunGraph(**graph, inputs, alone);
  EXPECT_TRUE(want.ok()) << want.status();
  for (const char* target : {"sm_80", "x86-64-v3"}) {
    absl::StatusOr<GraphRun> got =
        RunGraph(**graph, inputs, {.limits = {}, .target = *FindScheduleTarget(target), .sizes = {}});
    EXPECT_TRUE(got.ok()) << target << ": " << got.status();
    if (!want.ok() || !got.ok()) return run;
    run = *std::move(got);
    ExpectNear(want->outputs, run.outputs, target);
  }
  return run;
}

TEST(Rows, ThreeReductionsTwoStagesTwoOutputs) {
  const GraphRun run = RunFused(R"(graph inference
%0 = input f32[20, 96]
%1 = amax(%0, [1], true) : f32[20, 1]
%2 = mul(%0, %0) : f32[20, 96]
%3 = sum_dim(%2, [1], true, none) : f32[20, 1]
%4 = sub(%0, %1, 1) : f32[20, 96]
%5 = exp(%4) : f32[20, 96]
%6 = sum_dim(%5, [1], true, none) : f32[20, 1]
%7 = div(%5, %6) : f32[20, 96]
%8 = sqrt(%3) : f32[20, 1]
%9 = mul(%0, %8) : f32[20, 96]
return %7, %9
)");
  ASSERT_EQ(run.kernels.size(), 1u);
  EXPECT_EQ(run.input_reads, (std::vector<uint64_t>{kAll}));
  EXPECT_EQ(run.output_writes, (std::vector<uint64_t>{kAll, kAll}));
}

TEST(Rows, Softmax) {
  const GraphRun run = RunFused(R"(graph inference
%0 = input f32[20, 96]
%1 = aten._softmax.default(%0, 1, false) : f32[20, 96]
return %1
)");
  ASSERT_EQ(run.kernels.size(), 1u);
  EXPECT_EQ(run.input_reads, (std::vector<uint64_t>{kAll}));
  EXPECT_EQ(run.output_writes, (std::vector<uint64_t>{kAll}));
}

// The next row comes while this one's exponentials are computed, which take longer than reading it.
TEST(Rows, NextRowIsFetchedWhereThisOneTakesLong) {
  const GraphRun softmax = RunFused(R"(graph inference
%0 = input f32[20, 96]
%1 = aten._softmax.default(%0, 1, false) : f32[20, 96]
return %1
)");
  ASSERT_EQ(softmax.kernels.size(), 1u);
  EXPECT_NE(softmax.kernels[0].find("prefetch b2[i0*96 + i2 + 96]"), std::string::npos) << softmax.kernels[0];
  const GraphRun norm = RunFused(R"(graph inference
%0 = input f32[20, 96]
%1, %2, %3 = aten.native_layer_norm.default(%0, [96], none, none, 1e-05) : f32[20, 96], f32[20, 1], f32[20, 1]
return %1
)");
  ASSERT_EQ(norm.kernels.size(), 1u);
  EXPECT_EQ(norm.kernels[0].find("prefetch"), std::string::npos) << norm.kernels[0];
}

// Where an element is, data decide: it is found anew in each loop.
TEST(Rows, SoftmaxOfGathered) {
  const GraphRun run = RunFused(R"(graph inference
%0 = input f32[20, 96, 96]
%1 = input i64[20, 1, 96]
%2 = aten.gather.default(%0, 1, %1) : f32[20, 1, 96]
%3 = aten._softmax.default(%2, 2, false) : f32[20, 1, 96]
return %3
)");
  ASSERT_EQ(run.kernels.size(), 1u);
}

TEST(Rows, SoftmaxBackward) {
  const GraphRun run = RunFused(R"(graph inference
%0 = input f32[20, 96]
%1 = input f32[20, 96]
%2 = aten._softmax_backward_data.default(%0, %1, 1, dtype:f32) : f32[20, 96]
return %2
)");
  ASSERT_EQ(run.kernels.size(), 1u);
  EXPECT_EQ(run.input_reads, (std::vector<uint64_t>{kAll, kAll}));
  EXPECT_EQ(run.output_writes, (std::vector<uint64_t>{kAll}));
}

TEST(Rows, LayerNorm) {
  const GraphRun run = RunFused(R"(graph inference
%0 = input f32[20, 96]
%1 = input f32[96]
%2 = input f32[96]
%3, %4, %5 = aten.native_layer_norm.default(%0, [96], %1, %2, 1e-05) : f32[20, 96], f32[20, 1], f32[20, 1]
return %3, %4, %5
)");
  ASSERT_EQ(run.kernels.size(), 1u);
  EXPECT_EQ(run.input_reads[0], kAll);
  EXPECT_EQ(run.output_writes, (std::vector<uint64_t>{kAll, kRows, kRows}));
}

TEST(Rows, LayerNormBackward) {
  const GraphRun run = RunFused(R"(graph inference
%0 = input f32[20, 96]
%1 = input f32[20, 96]
%2 = input f32[20, 1]
%3 = input f32[20, 1]
%4 = input f32[96]
%5 = input f32[96]
%6, %7, %8 = aten.native_layer_norm_backward.default(%0, %1, [96], %2, %3, %4, %5, [true, true, true]) : f32[20, 96], f32[96], f32[96]
return %6, %7, %8
)");
  ASSERT_EQ(run.kernels.size(), 1u);
  EXPECT_EQ(run.input_reads[0], kAll);
  EXPECT_EQ(run.input_reads[1], kAll);
  EXPECT_EQ(run.output_writes, (std::vector<uint64_t>{kAll, kColumns, kColumns}));
}

// The rows' losses are picked out of the row and summed on the way.
TEST(Rows, CrossEntropy) {
  const GraphRun run = RunFused(R"(graph inference
%0 = input f32[20, 96]
%1 = input i64[20]
%2 = aten._log_softmax.default(%0, 1, false) : f32[20, 96]
%3, %4 = aten.nll_loss_forward.default(%2, %1, none, 1, -100) : f32[], f32[]
return %3, %4
)");
  ASSERT_EQ(run.kernels.size(), 1u);
  EXPECT_EQ(run.input_reads[0], kAll + kRows);  // each row, and the element that its target names
  EXPECT_EQ(run.output_writes, (std::vector<uint64_t>{1, 1}));
}

// The sinks' loop runs over no dim at all.
TEST(Rows, CrossEntropyOfOneRow) {
  const GraphRun run = RunFused(R"(graph inference
%0 = input f32[1, 96]
%1 = input i64[1]
%2 = aten._log_softmax.default(%0, 1, false) : f32[1, 96]
%3, %4 = aten.nll_loss_forward.default(%2, %1, none, 1, -100) : f32[], f32[]
return %3, %4
)");
  ASSERT_EQ(run.kernels.size(), 1u);
  EXPECT_EQ(run.input_reads[0], 96 + 1u);
  EXPECT_EQ(run.output_writes, (std::vector<uint64_t>{1, 1}));
}

// The second row's operand is named after the first one's exponentials, but it reads none of them.
TEST(Rows, OperandsThatAreCoveredAreNotRead) {
  const GraphRun run = RunFused(R"(graph inference
%0 = input f32[20, 96]
%1 = input f32[20, 96]
%2 = amax(%0, [1], true) : f32[20, 1]
%3 = sub(%0, %2, 1) : f32[20, 96]
%4 = exp(%3) : f32[20, 96]
%5 = sum_dim(%4, [1], true, none) : f32[20, 1]
%6 = div(%4, %5) : f32[20, 96]
%7 = slice_scatter(%6, %1, 0, 0, 20, 1) : f32[20, 96]
%8 = amax(%7, [1], true) : f32[20, 1]
%9 = sub(%7, %8, 1) : f32[20, 96]
return %6, %9
)");
  EXPECT_LE(run.kernels.size(), 2u);
}

// The mean of what the rows come to counts rows.
TEST(Rows, MeanOfRows) {
  const GraphRun run = RunFused(R"(graph inference
%0 = input f32[20, 96]
%1 = amax(%0, [1], false) : f32[20]
%2 = exp(%1) : f32[20]
%3 = mean(%2, none) : f32[]
return %3
)");
  ASSERT_EQ(run.kernels.size(), 1u);
}

TEST(Rows, LogSoftmaxAndCrossEntropyBackward) {
  const GraphRun forward = RunFused(R"(graph inference
%0 = input f32[20, 96]
%1 = aten._log_softmax.default(%0, 1, false) : f32[20, 96]
return %1
)");
  ASSERT_EQ(forward.kernels.size(), 1u);
  EXPECT_EQ(forward.input_reads, (std::vector<uint64_t>{kAll}));
  const GraphRun run = RunFused(R"(graph inference
%0 = input f32[]
%1 = input f32[20, 96]
%2 = input i64[20]
%3 = input f32[]
%4 = aten.nll_loss_backward.default(%0, %1, %2, none, 1, -100, %3) : f32[20, 96]
%5 = aten._log_softmax_backward_data.default(%4, %1, 1, dtype:f32) : f32[20, 96]
return %5
)");
  ASSERT_EQ(run.kernels.size(), 1u);
  EXPECT_EQ(run.input_reads[1], kAll);
  EXPECT_EQ(run.output_writes, (std::vector<uint64_t>{kAll}));
}

// What is a row and what a column is a matter of memory: the same columns in either order of dims, too many rows of
// them for the cache, or few enough.
TEST(Rows, ColumnsOfChannelsLastPassAgainOverWhatStaysInCache) {
  const auto normalized = [](const std::string& side, const std::string& layout) {
    const std::string image = "f32[1, 64, " + side + ", " + side + "]";
    return CheckRun("%0 = input " + image + "\n%1 = clone(%0, none) : " + image + layout +
                    "\n%2 = amax(%1, [0, 2, 3], true) : f32[1, 64, 1, 1]\n%3 = sub(%1, %2, 1) : " + image + layout +
                    "\n%4 = neg(%3) : " + image + "\nreturn %4")
        .kernels.size();
  };
  EXPECT_EQ(normalized("64", ""), 1u);
  EXPECT_EQ(normalized("32", "{65536, 1, 2048, 64}"), 1u);
  EXPECT_GT(normalized("64", "{262144, 1, 4096, 64}"), 1u);
}

}  // namespace
}  // namespace kiln
