#include "compiler/schedule/testing.h"

#include <gtest/gtest.h>

#include <random>

#include "compiler/graph/interp.h"
#include "compiler/graph/text.h"
#include "compiler/lower/index.h"
#include "compiler/ops/eval.h"
#include "compiler/ops/registry.h"
#include "compiler/ops/testing.h"

namespace kiln {
namespace {

constexpr int64_t kLargestIndex = 5;

// Sums of few eighths are exact in any order; of thousandths, only in the specified one.
GraphRun CheckOn(const char* target, double step, const Graph& graph) {
  std::vector<std::string> storages;
  std::vector<HostValue> inputs;
  std::mt19937 random(7);
  const auto values = static_cast<uint32_t>(4 / step);
  for (const GraphInput& input : graph.inputs()) {
    const TensorType& type = *graph.type(input.value);
    HostArray array{type.dtype, {}, {}};
    for (const Sym s : type.sizes) array.sizes.push_back(*graph.syms().AsConst(s));
    const int64_t n = *graph.syms().AsConst(NumElements(graph.syms(), type.sizes));
    for (int64_t i = 0; i < n; ++i) {
      const double x = static_cast<double>(random() % values) * step - 2;
      array.data += FromDouble(type.dtype, IsFloat(type.dtype) ? x : static_cast<double>(random() % kLargestIndex));
    }
    storages.push_back(array.data);
    inputs.push_back(std::move(array));
  }
  const absl::StatusOr<GraphResult> want = Interpret(graph, inputs, EvalRecord);
  absl::StatusOr<GraphRun> got =
      RunGraph(graph, storages, {.limits = {}, .target = *FindScheduleTarget(target), .sizes = {}});
  EXPECT_TRUE(want.ok()) << want.status();
  EXPECT_TRUE(got.ok()) << target << ": " << got.status();
  if (!want.ok() || !got.ok()) return {};
  for (size_t o = 0; o < want->outputs.size(); ++o) {
    EXPECT_TRUE(got->outputs[o] == std::get<HostArray>(want->outputs[o]).data) << target << ", output " << o;
  }
  return *std::move(got);
}

}  // namespace

GraphRun CheckRun(const std::string& text) {
  absl::StatusOr<std::shared_ptr<const Graph>> graph = ParseGraph("graph inference\n" + text, ResolveOp);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  CheckOn("sm_80", 1.0 / 8, **graph);
  return CheckOn("x86-64-v3", 1.0 / 1000, **graph);
}

}  // namespace kiln
