// What this build of the compiler knows: for servers and tools to show.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/info.h"

namespace kiln {

// Names that Target.name may have.
std::vector<std::string> Targets();

// What ptxas may assemble a CUDA target's PTX for, the best first (proto AssembleJob.archs). None for other targets.
std::vector<std::string> AssembleFor(std::string_view target);

// A function of mathlib, and how far it may be from the exact value and was found to be (mathlib/budgets/).
struct FunctionInfo {
  std::string name;
  double f32_budget = 0, f32_measured = 0;
  double f64_budget = 0, f64_measured = 0;
  bool exhaustive = false;  // f32 was measured over all inputs
};

struct OperatorInfo {
  OpInfo record;
  std::vector<FunctionInfo> functions;  // that an element takes, for the arguments of the record's samples
};

// Every record, sorted by name. Test: inventory_test.cc.
std::vector<OperatorInfo> Operators();

}  // namespace kiln
