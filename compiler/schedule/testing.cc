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

}  // namespace

GraphRun CheckRun(const std::string& text) {
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
      const double x = static_cast<double>(random() % 33) / 8 - 2;  // sums are exact, in any order
      array.data += FromDouble(type.dtype, IsFloat(type.dtype) ? x : static_cast<double>(random() % kLargestIndex));
    }
    storages.push_back(array.data);
    inputs.push_back(std::move(array));
  }
  const absl::StatusOr<GraphResult> want = Interpret(**graph, inputs, EvalRecord);
  EXPECT_TRUE(want.ok()) << want.status();
  GraphRun run;
  for (const char* target : {"sm_80", "x86-64-v3"}) {
    absl::StatusOr<GraphRun> got =
        RunGraph(**graph, storages, {.limits = {}, .target = *FindScheduleTarget(target), .sizes = {}});
    EXPECT_TRUE(got.ok()) << target << ": " << got.status();
    if (!want.ok() || !got.ok()) return {};
    for (size_t o = 0; o < want->outputs.size(); ++o) {
      EXPECT_TRUE(got->outputs[o] == std::get<HostArray>(want->outputs[o]).data) << target << ", output " << o;
    }
    run = *std::move(got);
  }
  return run;
}

}  // namespace kiln
