// Records that read other places of their operands than the result's own index, and reductions: small cases with
// eager's answers.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "compiler/graph/interp.h"
#include "compiler/graph/text.h"
#include "compiler/ops/eval.h"
#include "compiler/ops/registry.h"
#include "compiler/ops/testing.h"

namespace kiln {
namespace {

// Runs the node `%r = TEXT` (after `lines`) and gives the elements of %r. Input %k holds 0, 1, 2 … unless `values` says
// otherwise.
class Defs : public testing::Test {
 protected:
  absl::StatusOr<std::vector<std::vector<double>>> Run(const std::string& text,
                                                       std::vector<std::vector<double>> values = {}) {
    const absl::StatusOr<std::shared_ptr<const Graph>> graph = ParseGraph("graph inference\n" + text, ResolveOp);
    if (!graph.ok()) return graph.status();
    for (const Node& node : (*graph)->nodes()) {
      if (absl::Status s = VerifyCall(Call(**graph, node)); !s.ok()) return s;
    }
    std::vector<HostValue> inputs;
    for (size_t i = 0; i < (*graph)->inputs().size(); ++i) {
      const TensorType& type = *(*graph)->type((*graph)->inputs()[i].value);
      HostArray array{type.dtype, {}, {}};
      int64_t count = 1;
      for (Sym s : type.sizes)
        array.sizes.push_back((*graph)->syms().AsConst(s).value_or(0)), count *= array.sizes.back();
      for (int64_t k = 0; k < count; ++k) {
        array.data +=
            FromDouble(type.dtype, i < values.size() && !values[i].empty() ? values[i][k] : static_cast<double>(k));
      }
      inputs.push_back(std::move(array));
    }
    const absl::StatusOr<GraphResult> result = Interpret(**graph, inputs, EvalRecord);
    if (!result.ok()) return result.status();
    std::vector<std::vector<double>> outputs;
    for (const HostValue& value : result->outputs) {
      const HostArray& array = std::get<HostArray>(value);
      outputs.emplace_back();
      for (size_t at = 0; at < array.data.size(); at += ByteSize(array.dtype)) {
        outputs.back().push_back(ToDouble(array.dtype, std::string_view(array.data).substr(at)));
      }
    }
    return outputs;
  }

  void Expect(const std::string& text, std::vector<std::vector<double>> wanted,
              std::vector<std::vector<double>> values = {}) {
    const auto got = Run(text, std::move(values));
    ASSERT_TRUE(got.ok()) << text << "\n" << got.status();
    EXPECT_EQ(*got, wanted) << text;
  }

  void ExpectRefused(const std::string& text, const std::string& why, std::vector<std::vector<double>> values = {}) {
    const auto got = Run(text, std::move(values));
    EXPECT_EQ(got.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(got.status().message().find(why), std::string::npos) << got.status();
  }
};

TEST_F(Defs, Views) {
  Expect("%0 = input f32[2, 3]\n%1 = view(%0, [3, -1]) : f32[3, 2]\nreturn %1", {{0, 1, 2, 3, 4, 5}});
  Expect("%0 = input f32[2, 3]\n%1 = t(%0) : f32[3, 2]\n%2 = view(%1, [3, 2, 1]) : f32[3, 2, 1]\nreturn %2",
         {{0, 3, 1, 4, 2, 5}});
  Expect("%0 = input f32[2, 3, 2]\n%1 = permute(%0, [2, 0, -2]) : f32[2, 2, 3]\nreturn %1",
         {{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11}});
  Expect("%0 = input f32[2, 1]\n%1 = expand(%0, [2, -1, 3], false) : f32[2, 2, 3]\nreturn %1",
         {{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}});
  Expect("%0 = input f32[2, 2]\n%1 = unsqueeze(%0, -1) : f32[2, 2, 1]\n%2 = squeeze_dim(%1, 2) : f32[2, 2]\nreturn %2",
         {{0, 1, 2, 3}});
  Expect("%0 = input f32[1, 2, 1]\n%1 = squeeze(%0) : f32[2]\n%2 = squeeze_dims(%0, [0, 1]) : f32[2, 1]\nreturn %1, %2",
         {{0, 1}, {0, 1}});
  Expect("%0 = input f32[3, 2]\n%1 = select(%0, 0, -1) : f32[2]\n%2 = select(%0, 1, 0) : f32[3]\nreturn %1, %2",
         {{4, 5}, {0, 2, 4}});
  Expect(
      "%0 = input f32[7]\n%1 = slice(%0, 0, 1, -1, 2) : f32[3]\n%2 = slice(%0, 0, -3, 100, 1) : f32[3]\n"
      "%3 = slice(%0, 0, 5, 2, 1) : f32[0]\nreturn %1, %2, %3",
      {{1, 3, 5}, {4, 5, 6}, {}});
  Expect("%0 = input f32[5]\n%1, %2, %3 = split(%0, 2, 0) : f32[2], f32[2], f32[1]\nreturn %1, %2, %3",
         {{0, 1}, {2, 3}, {4}});
  Expect("%0 = input f32[5]\n%1, %2 = split_with_sizes(%0, [4, 1], 0) : f32[4], f32[1]\nreturn %1, %2",
         {{0, 1, 2, 3}, {4}});
  Expect("%0 = input f32[2, 2]\n%1, %2 = unbind(%0, 1) : f32[2], f32[2]\nreturn %1, %2", {{0, 2}, {1, 3}});
}

TEST_F(Defs, Scans) {
  Expect("%0 = input f32[3, 4]\n%1 = cumsum(%0, 0, none) : f32[3, 4]\nreturn %1",
         {{0, 1, 2, 3, 4, 6, 8, 10, 12, 15, 18, 21}});
  Expect("%0 = input f32[3, 4]\n%1 = cumsum(%0, -1, none) : f32[3, 4]\nreturn %1",
         {{0, 1, 3, 6, 4, 9, 15, 22, 8, 17, 27, 38}});
  Expect("%0 = input f32[3, 4]\n%1 = cumprod(%0, 1, none) : f32[3, 4]\nreturn %1",
         {{0, 0, 0, 0, 4, 20, 120, 840, 8, 72, 720, 7920}});
  // Accumulated in f64, as eager does: 2^24 + 1 + 1.
  Expect("%0 = input f32[3]\n%1 = cumsum(%0, 0, none) : f32[3]\nreturn %1", {{16777216, 16777216, 16777218}},
         {{16777216, 1, 1}});
}

TEST_F(Defs, Scatters) {
  Expect(
      "%0 = input f32[4, 2]\n%1 = input i64[4]\n"
      "%2 = embedding_dense_backward(%0, %1, 3, 1, false) : f32[3, 2]\nreturn %2",
      {{2, 3, 0, 0, 4, 6}}, {{}, {2, 0, 2, 1}});
  const std::string self = "%0 = input f32[3, 2]\n";
  Expect(self + "%1 = input i64[2]\n%2 = input f32[2, 2]\n%3 = index_put(%0, [%1], %2, false) : f32[3, 2]\nreturn %3",
         {{2, 3, 2, 3, 0, 1}}, {{}, {-1, 0}});
  Expect(self + "%1 = input i64[2]\n%2 = input f32[2, 2]\n%3 = index_put(%0, [%1], %2, true) : f32[3, 2]\nreturn %3",
         {{0, 1, 2, 3, 6, 9}}, {{}, {2, 2}});
  Expect(self +
             "%1 = input i64[2]\n%2 = input i64[2]\n%3 = input f32[]\n"
             "%4 = index_put(%0, [%1, %2], %3, true) : f32[3, 2]\nreturn %4",
         {{0, 6, 2, 3, 4, 10}}, {{}, {0, 2}, {1, 1}, {5}});
  Expect(self +
             "%1 = input i64[2]\n%2 = input f32[3, 2]\n"
             "%3 = index_put(%0, [none, %1], %2, true) : f32[3, 2]\nreturn %3",
         {{0, 2, 2, 8, 4, 14}}, {{}, {1, 1}});
  const std::string picked = self + "%1 = input i64[2, 2]\n%2 = input f32[2, 2]\n";
  const std::vector<std::vector<double>> places = {{}, {0, 1, 0, 0}};
  Expect(picked + "%3 = scatter(%0, 0, %1, %2) : f32[3, 2]\nreturn %3", {{2, 3, 2, 1, 4, 5}}, places);
  Expect(picked + "%3 = scatter(%0, 0, %1, 7) : f32[3, 2]\nreturn %3", {{7, 7, 2, 7, 4, 5}}, places);
  Expect(picked + "%3 = scatter_add(%0, 0, %1, %2) : f32[3, 2]\nreturn %3", {{2, 4, 2, 4, 4, 5}}, places);
  Expect(picked + "%3 = scatter_reduce(%0, 0, %1, %2, \"amax\", true) : f32[3, 2]\nreturn %3", {{2, 3, 2, 3, 4, 5}},
         places);
  // The index reaches a part of the other dim only.
  Expect(self +
             "%1 = input i64[2, 1]\n%2 = input f32[2, 2]\n"
             "%3 = scatter_reduce(%0, 1, %1, %2, \"prod\", true) : f32[3, 2]\nreturn %3",
         {{0, 0, 4, 3, 4, 5}}, {{}, {1, 0}});
  Expect(self + "%1 = input i64[3]\n%2 = input f32[3, 3]\n%3 = index_add(%0, 1, %1, %2, 1) : f32[3, 2]\nreturn %3",
         {{2, 2, 7, 10, 12, 18}}, {{}, {1, 1, 0}});
  Expect(self + "%1 = input i64[1]\n%2 = input f32[1, 2]\n%3 = index_copy(%0, 0, %1, %2) : f32[3, 2]\nreturn %3",
         {{0, 1, 2, 3, 9, 9}}, {{}, {2}, {9, 9}});
  ExpectRefused(self + "%1 = input i64[1]\n%2 = input f32[1, 2]\n%3 = index_copy(%0, 0, %1, %2) : f32[3, 2]\nreturn %3",
                "out of range", {{}, {3}});
}

TEST_F(Defs, Diagonals) {
  Expect(
      "%0 = input f32[2, 3]\n%1 = diagonal(%0, 0, 0, 1) : f32[2]\n%2 = diagonal(%0, 1, 0, 1) : f32[2]\n"
      "%3 = diagonal(%0, -1, 0, 1) : f32[1]\n%4 = diagonal(%0, -1, -1, 0) : f32[2]\n"
      "%5 = diagonal(%0, 7, 0, 1) : f32[0]\nreturn %1, %2, %3, %4, %5",
      {{0, 4}, {1, 5}, {3}, {1, 5}, {}});
  Expect("%0 = input f32[2, 2, 2]\n%1 = diagonal(%0, 0, 0, 2) : f32[2, 2]\nreturn %1", {{0, 5, 2, 7}});
}

TEST_F(Defs, AveragesOverWindows) {
  Expect(
      "%0 = input f32[1, 2, 4]\n%1 = avg_pool2d(%0, [2, 2], [], [0, 0], false, true, none) : f32[1, 1, 2]\n"
      "%2 = avg_pool2d(%0, [2, 2], [2, 2], [1, 1], false, true, none) : f32[1, 2, 3]\n"
      "%3 = avg_pool2d(%0, [2, 2], [2, 2], [1, 1], false, false, none) : f32[1, 2, 3]\n"
      "%4 = avg_pool2d(%0, [2, 3], [1, 2], [0, 0], true, true, none) : f32[1, 1, 2]\n"
      "%5 = avg_pool2d(%0, [2, 2], [], [0, 0], false, true, 2) : f32[1, 1, 2]\nreturn %1, %2, %3, %4, %5",
      {{2.5, 4.5}, {0, 0.75, 0.75, 1, 2.75, 1.75}, {0, 1.5, 3, 4, 5.5, 7}, {3, 4.5}, {5, 9}});
  Expect(
      "%0 = input f32[1, 1, 2]\n%1 = input f32[1, 2, 4]\n"
      "%2 = avg_pool2d_backward(%0, %1, [2, 2], [2, 2], [0, 0], false, true, none) : f32[1, 2, 4]\n"
      "%3 = avg_pool2d_backward(%0, %1, [1, 3], [2, 1], [0, 0], false, true, none) : f32[1, 2, 4]\nreturn %2, %3",
      {{0.75, 0.75, 1.5, 1.5, 0.75, 0.75, 1.5, 1.5}, {1, 3, 3, 2, 0, 0, 0, 0}}, {{3, 6}, {}});
}

TEST_F(Defs, Pixels) {
  Expect(
      "%0 = input f32[4, 1, 2]\n%1 = pixel_shuffle(%0, 2) : f32[1, 2, 4]\n%2 = pixel_unshuffle(%1, 2) : f32[4, 1, 2]\n"
      "return %1, %2",
      {{0, 2, 1, 3, 4, 6, 5, 7}, {0, 1, 2, 3, 4, 5, 6, 7}});
}

TEST_F(Defs, ViewsRefuse) {
  ExpectRefused("%0 = input f32[6]\n%1 = view(%0, [4, -1]) : f32[4, 1]\nreturn %1", "view");
  ExpectRefused("%0 = input f32[6]\n%1 = select(%0, 0, 6) : f32[]\nreturn %1", "select: index 6 of a dim of 6");
  ExpectRefused("%0 = input f32[2, 2]\n%1 = permute(%0, [0, 0]) : f32[2, 2]\nreturn %1", "permutation");
  ExpectRefused("%0 = input f32[2, 2]\n%1 = transpose(%0, 0, 2) : f32[2, 2]\nreturn %1", "dim 2 of a tensor of 2 dims");
  ExpectRefused("%0 = input f32[2]\n%1 = expand(%0, [3], false) : f32[3]\nreturn %1", "expand");
  ExpectRefused("%0 = input f32[2]\n%1 = slice(%0, 0, 0, 2, 0) : f32[2]\nreturn %1", "step");
}

TEST_F(Defs, Embedding) {
  const std::string text =
      "%0 = input f32[3, 2]\n%1 = input i64[2, 2]\n%2 = embedding(%0, %1, -1, false, false) : f32[2, 2, 2]\nreturn %2";
  Expect(text, {{4, 5, 0, 1, 2, 3, 4, 5}}, {{}, {2, 0, 1, 2}});
  ExpectRefused(text, "index out of range", {{}, {2, 0, 3, 2}});
  ExpectRefused(text, "index out of range", {{}, {2, 0, -1, 2}});
}

TEST_F(Defs, Index) {
  Expect("%0 = input f32[3, 2]\n%1 = input i64[3]\n%2 = index(%0, [%1]) : f32[3, 2]\nreturn %2", {{4, 5, 0, 1, 4, 5}},
         {{}, {-1, 0, 2}});
  // Two index tensors that broadcast, next to each other: their dims stay in place.
  Expect(
      "%0 = input f32[2, 2, 3]\n%1 = input i64[2, 1]\n%2 = input i64[2]\n"
      "%3 = index(%0, [none, %1, %2]) : f32[2, 2, 2]\nreturn %3",
      {{2, 0, 5, 3, 8, 6, 11, 9}}, {{}, {0, 1}, {2, 0}});
  // Apart: in front.
  Expect("%0 = input f32[2, 2, 3]\n%1 = input i64[2]\n%2 = index(%0, [%1, none, %1]) : f32[2, 2]\nreturn %2",
         {{7, 10, 0, 3}}, {{}, {1, 0}});
  ExpectRefused("%0 = input f32[3]\n%1 = input i64[1]\n%2 = index(%0, [%1]) : f32[1]\nreturn %2", "index out of range",
                {{}, {-4}});
  Expect("%0 = input f32[2, 3]\n%1 = input i64[2, 2]\n%2 = gather(%0, 1, %1, false) : f32[2, 2]\nreturn %2",
         {{2, 0, 4, 4}}, {{}, {2, 0, 1, 1}});
  Expect("%0 = input f32[2, 3]\n%1 = input i32[2]\n%2 = index_select(%0, 1, %1) : f32[2, 2]\nreturn %2", {{2, 0, 5, 3}},
         {{}, {2, 0}});
}

TEST_F(Defs, Joining) {
  Expect(
      "%0 = input f32[2, 1]\n%1 = input f32[2, 2]\n%2 = input f32[2, 0]\n%3 = cat([%0, %2, %1, %0], -1) : f32[2, "
      "4]\nreturn %3",
      {{0, 0, 1, 0, 1, 2, 3, 1}});
  Expect("%0 = input f32[0]\n%1 = input f32[2, 2]\n%2 = cat([%0, %1], 1) : f32[2, 2]\nreturn %2", {{0, 1, 2, 3}});
  Expect("%0 = input i64[2]\n%1 = input f32[2]\n%2 = stack([%0, %1, %0], 1) : f32[2, 3]\nreturn %2",
         {{0, 0, 0, 1, 1, 1}});
  Expect("%0 = input f32[2, 2]\n%1 = constant_pad_nd(%0, [1, -1, 0, 1], 9) : f32[3, 2]\nreturn %1",
         {{9, 0, 9, 2, 9, 9}});
  Expect("%0 = input f32[2]\n%1 = repeat(%0, [2, 2]) : f32[2, 4]\nreturn %1", {{0, 1, 0, 1, 0, 1, 0, 1}});
  Expect("%0 = input f32[2, 3]\n%1 = flip(%0, [0, -1]) : f32[2, 3]\nreturn %1", {{5, 4, 3, 2, 1, 0}});
  Expect("%0 = input f32[4]\n%1 = roll(%0, [1], []) : f32[4]\n%2 = roll(%0, [-6], [0]) : f32[4]\nreturn %1, %2",
         {{3, 0, 1, 2}, {2, 3, 0, 1}});
  ExpectRefused("%0 = input f32[2, 1]\n%1 = input f32[3, 1]\n%2 = cat([%0, %1], 1) : f32[2, 2]\nreturn %2",
                "cat: sizes 2 and 3");
}

TEST_F(Defs, Triangles) {
  Expect("%0 = input f32[3, 3]\n%1 = tril(%0, 0) : f32[3, 3]\n%2 = triu(%0, 1) : f32[3, 3]\nreturn %1, %2",
         {{0, 0, 0, 3, 4, 0, 6, 7, 8}, {0, 1, 2, 0, 0, 5, 0, 0, 0}});
  Expect("%0 = input bool[2, 2]\n%1 = tril(%0, -1) : bool[2, 2]\nreturn %1", {{0, 0, 1, 0}}, {{1, 1, 1, 1}});
}

TEST_F(Defs, SliceAndSelectBackward) {
  Expect("%0 = input f32[2]\n%1 = slice_backward(%0, [6], 0, 1, 5, 3) : f32[6]\nreturn %1", {{0, 7, 0, 0, 8, 0}},
         {{7, 8}});
  Expect("%0 = input f32[2]\n%1 = slice_backward(%0, [3], 0, -2, 9223372036854775807, 1) : f32[3]\nreturn %1",
         {{0, 7, 8}}, {{7, 8}});
  Expect("%0 = input f32[2]\n%1 = select_backward(%0, [2, 3], 1, -1) : f32[2, 3]\nreturn %1", {{0, 0, 7, 0, 0, 8}},
         {{7, 8}});
  Expect("%0 = input f32[4]\n%1 = input f32[2]\n%2 = slice_scatter(%0, %1, 0, 0, 4, 2) : f32[4]\nreturn %2",
         {{7, 1, 8, 3}}, {{}, {7, 8}});
  Expect("%0 = input f32[2, 2]\n%1 = input f32[2]\n%2 = select_scatter(%0, %1, 0, 1) : f32[2, 2]\nreturn %2",
         {{0, 1, 7, 8}}, {{}, {7, 8}});
}

TEST_F(Defs, Creation) {
  Expect("%0 = arange(4, none, none, none, none) : i64[4]\nreturn %0", {{0, 1, 2, 3}});
  Expect("%0 = arange_start(2, 5, dtype:f32, none, none, none) : f32[3]\nreturn %0", {{2, 3, 4}});
  Expect("%0 = arange_step(5, 0, -2, none, none, none, none) : i64[3]\nreturn %0", {{5, 3, 1}});
  Expect("%0 = arange_step(0.0, 1.0, 0.25, none, none, none, none) : f32[4]\nreturn %0", {{0, 0.25, 0.5, 0.75}});
  Expect(
      "%0 = full([2], 9007199254740993, none, none, none, none) : i64[2]\n%1 = eq(%0, 9007199254740993) : "
      "bool[2]\nreturn %1",
      {{1, 1}});
  Expect(
      "%0 = full([2], 3.75, dtype:i32, none, none, none) : i32[2]\n%1 = ones([], dtype:bool, none, none, none) : "
      "bool[]\n"
      "%2 = eye_m(2, 3, none, none, none, none) : f32[2, 3]\nreturn %0, %1, %2",
      {{3, 3}, {1}, {1, 0, 0, 0, 1, 0}});
  ExpectRefused("%0 = arange_step(0, 5, 0, none, none, none, none) : i64[1]\nreturn %0", "step of 0");
}

TEST_F(Defs, Reductions) {
  Expect(
      "%0 = input f32[2, 3]\n%1 = sum(%0, none) : f32[]\n%2 = sum_dim(%0, [-1], true, none) : f32[2, 1]\n"
      "%3 = sum_dim(%0, [0], false, none) : f32[3]\n%4 = sum_dim(%0, [], false, none) : f32[]\nreturn %1, %2, %3, %4",
      {{15}, {3, 12}, {3, 5, 7}, {15}});
  Expect("%0 = input f32[2, 2, 2]\n%1 = sum_dim(%0, [0, 2], false, none) : f32[2]\nreturn %1", {{10, 18}});
  Expect("%0 = input bf16[300]\n%1 = sum(%0, none) : bf16[]\n%2 = mean(%0, none) : bf16[]\nreturn %1, %2", {{300}, {1}},
         {std::vector<double>(300, 1.0)});  // a bf16 accumulator would stop at 256
  Expect("%0 = input f32[2]\n%1 = sum(%0, dtype:bf16) : bf16[]\n%2 = mean(%0, dtype:bf16) : bf16[]\nreturn %1, %2",
         {{2}, {1.0078125}}, {{1.00390625, 1.00396}});  // a sum rounds its operands first, a mean does not
  Expect(
      "%0 = input bool[3]\n%1 = sum(%0, none) : i64[]\n%2 = any(%0) : bool[]\n%3 = all(%0) : bool[]\nreturn %1, %2, %3",
      {{2}, {1}, {0}}, {{1, 0, 1}});
  Expect(
      "%0 = input f32[2, 2]\n%1 = mean_dim(%0, [1], false, none) : f32[2]\n%2 = prod_dim(%0, 0, true, none) : f32[1, "
      "2]\n"
      "%3 = amax(%0, [0], false) : f32[2]\n%4 = amin(%0, [], false) : f32[]\nreturn %1, %2, %3, %4",
      {{0.5, 2.5}, {0, 3}, {2, 3}, {0}});
  Expect("%0 = input i64[2]\n%1 = max(%0) : i64[]\n%2 = min(%0) : i64[]\nreturn %1, %2", {{-5}, {-7}}, {{-5, -7}});
  Expect("%0 = input u8[2]\n%1 = max(%0) : u8[]\n%2 = min(%0) : u8[]\n%3 = any(%0) : u8[]\nreturn %1, %2, %3",
         {{200}, {0}, {1}}, {{0, 200}});
  Expect(
      "%0 = input f32[2, 2]\n%1 = linalg_vector_norm(%0, 2, [1], false, none) : f32[2]\n"
      "%2 = linalg_vector_norm(%0, inf, none, false, none) : f32[]\nreturn %1, %2",
      {{5, 13}, {12}}, {{3, -4, 5, -12}});
  Expect("%0 = input f32[0]\n%1 = sum(%0, none) : f32[]\n%2 = all_dim(%0, 0, false) : bool[]\nreturn %1, %2",
         {{0}, {1}});
  ExpectRefused("%0 = input f32[0]\n%1 = amax(%0, [0], false) : f32[]\nreturn %1", "an extremum over dim 0 of size 0");
  ExpectRefused("%0 = input f32[2]\n%1 = sum_dim(%0, [0, 0], false, none) : f32[]\nreturn %1", "a dim appears twice");
}

TEST_F(Defs, NanWinsInExtrema) {
  const auto got =
      Run("%0 = input f32[3]\n%1 = amax(%0, [0], false) : f32[]\n%2 = amin(%0, [0], false) : f32[]\nreturn %1, %2",
          {{1, NAN, 2}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE(std::isnan((*got)[0][0]) && std::isnan((*got)[1][0]));
}

// Eager's CPU kernels, bit by bit: which numbers of a low-precision operation are rounded, which intermediates are,
// what is fused.
TEST_F(Defs, EagersRounding) {
  const std::string x = "%0 = input bf16[1]\n";
  Expect(x + "%1 = mul(%0, 0.1) : bf16[1]\nreturn %1", {{0.0013885498046875}}, {{0.013916015625}});  // 0.1 in f32
  Expect(x + "%1 = div(%0, 0.1) : bf16[1]\nreturn %1", {{0.51171875}}, {{0.051025390625}});
  Expect(x + "%1 = add(%0, 0.1, 1) : bf16[1]\nreturn %1", {{0.1103515625}}, {{0.010009765625}});  // 0.1 in bf16
  Expect(x + "%1 = eq(%0, 0.1) : bool[1]\nreturn %1", {{1}}, {{0.10009765625}});
  Expect(x + "%1 = threshold_backward(%0, %0, 0.1) : bf16[1]\nreturn %1", {{0.10009765625}}, {{0.10009765625}});
  Expect(x + "%1 = pow_scalar(%0, 3) : bf16[1]\nreturn %1", {{2.110004425048828e-05}}, {{0.027587890625}});
  Expect("%0 = input f16[1]\n%1 = input f16[1]\n%2 = sigmoid_backward(%0, %1) : f16[1]\nreturn %2",
         {{0.09613037109375}}, {{1}, {0.1077880859375}});
  Expect("%0 = input f32[1]\n%1 = input f32[1]\n%2 = tanh_backward(%0, %1) : f32[1]\nreturn %2", {{0.9654272198677063}},
         {{1}, {0.18593749403953552}});
  Expect("%0 = input f32[1]\n%1 = add(%0, %0, 0.3) : f32[1]\nreturn %1", {{0.1300000101327896}}, {{0.1}});
}

TEST_F(Defs, ZerosAndNan) {
  const auto got =
      Run("%0 = input f32[3]\n%1 = relu(%0) : f32[3]\n%2 = clamp(%0, 0, 1) : f32[3]\nreturn %1, %2", {{-0.0, NAN, -2}});
  ASSERT_TRUE(got.ok()) << got.status();
  for (const std::vector<double>& result : *got) {
    EXPECT_TRUE(result[0] == 0 && std::signbit(result[0]));
    EXPECT_TRUE(std::isnan(result[1]));
    EXPECT_EQ(result[2], 0);
  }
}

}  // namespace
}  // namespace kiln
