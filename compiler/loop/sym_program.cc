#include "compiler/loop/sym_program.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace kiln::loop {
namespace {

// Division towards minus infinity; false where it has no answer.
bool FloorDivide(int64_t a, int64_t b, int64_t& quotient, int64_t& rest) {
  if (b == 0) return false;
  if (b == -1) {
    rest = 0;
    return !__builtin_sub_overflow(int64_t{0}, a, &quotient);
  }
  quotient = a / b;
  rest = a % b;
  if (rest != 0 && (rest < 0) != (b < 0)) {
    --quotient;
    rest += b;
  }
  return true;
}

}  // namespace

SymProgram::SymProgram(const SymContext& syms, Sym s, absl::FunctionRef<uint32_t(Var)> slot) {
  absl::flat_hash_map<Sym, uint32_t> done;
  std::vector<Sym> todo = {s};
  while (!todo.empty()) {
    const Sym sym = todo.back();
    if (done.contains(sym)) {
      todo.pop_back();
      continue;
    }
    const SymNode node = syms.Node(sym);
    const size_t waiting = todo.size();
    for (Sym arg : node.args) {
      if (!done.contains(arg)) todo.push_back(arg);
    }
    if (todo.size() != waiting) continue;
    todo.pop_back();
    Step step{.op = node.op,
              .value = node.value,
              .first = static_cast<uint32_t>(operands_.size()),
              .count = static_cast<uint32_t>(node.args.size())};
    if (node.op == SymNode::Op::kVar) step.value = slot(node.var);
    for (Sym arg : node.args) operands_.push_back(done[arg]);
    done[sym] = static_cast<uint32_t>(steps_.size());
    steps_.push_back(step);
  }
  results_.resize(steps_.size());
}

bool SymProgram::Run(const Step& step, std::span<const int64_t> variables, int64_t& result) const {
  auto operand = [&](uint32_t i) { return results_[operands_[step.first + i]]; };
  int64_t other = 0;
  switch (step.op) {
    case SymNode::Op::kConst:
      result = step.value;
      return true;
    case SymNode::Op::kVar:
      result = variables[step.value];
      return true;
    case SymNode::Op::kAdd:
      result = 0;
      for (uint32_t i = 0; i < step.count; ++i) {
        if (__builtin_add_overflow(result, operand(i), &result)) return false;
      }
      return true;
    case SymNode::Op::kMul:
      result = 1;
      for (uint32_t i = 0; i < step.count; ++i) {
        if (__builtin_mul_overflow(result, operand(i), &result)) return false;
      }
      return true;
    case SymNode::Op::kFloorDiv:
      return FloorDivide(operand(0), operand(1), result, other);
    case SymNode::Op::kMod:
      return FloorDivide(operand(0), operand(1), other, result) || operand(1) == -1;
    case SymNode::Op::kMin:
      result = std::min(operand(0), operand(1));
      return true;
    case SymNode::Op::kMax:
      result = std::max(operand(0), operand(1));
      return true;
  }
  return false;
}

bool SymProgram::Eval(std::span<const int64_t> variables, int64_t& result) {
  if (steps_.empty()) {
    result = 0;
    return true;
  }
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (!Run(steps_[i], variables, results_[i])) return false;
  }
  result = results_.back();
  return true;
}

}  // namespace kiln::loop
