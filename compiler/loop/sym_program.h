// Index expressions compiled to a flat list of steps, for evaluating them many times.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "compiler/graph/sym.h"

namespace kiln::loop {

class SymProgram {
 public:
  SymProgram() = default;
  // `slot` gives the place of a variable in the array that Eval gets.
  SymProgram(const SymContext& syms, Sym s, absl::FunctionRef<uint32_t(Var)> slot);

  // False if a step overflows 64 bits or divides by zero. `variables` holds one value a slot. Not thread-safe.
  bool Eval(std::span<const int64_t> variables, int64_t& result);

 private:
  struct Step {
    SymNode::Op op = SymNode::Op::kConst;
    int64_t value = 0;              // kConst: the value; kVar: the slot
    uint32_t first = 0, count = 0;  // operands: steps_[operands_[first …]]
  };
  bool Run(const Step& step, std::span<const int64_t> variables, int64_t& result) const;

  std::vector<Step> steps_;
  std::vector<uint32_t> operands_;
  std::vector<int64_t> results_;
};

}  // namespace kiln::loop
