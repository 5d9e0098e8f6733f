// A functional graph becomes a Function: kernels, external calls and memory as flat steps.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "compiler/compile/kernels.h"
#include "compiler/graph/graph.h"
#include "compiler/pipeline/pass.h"
#include "compiler/schedule/choose.h"
#include "proto/artifact.pb.h"

namespace kiln {

struct FunctionOptions {
  ScheduleTarget target;
  bool inputs_die = false;      // FusionLimits
  uint32_t first_constant = 0;  // the graph's constants are Artifact.constants [first_constant, …)
};

// `context.subject` names the function: "forward", "backward", "inference". Kernels go to `pool`. Deterministic.
// Test: function_test.cc.
absl::StatusOr<v1::Function> BuildFunction(const Graph& graph, const FunctionOptions& options,
                                           const PassContext& context, KernelPool& pool);

}  // namespace kiln
