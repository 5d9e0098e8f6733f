#include "compiler/mathlib/function.h"

namespace kiln::mathlib {

std::span<const Function* const> AllFunctions() {
  static constexpr const Function* kAll[] = {&kExpFunction,  &kLogFunction, &kSinFunction,   &kCosFunction,
                                             &kTanhFunction, &kErfFunction, &kRsqrtFunction, &kPowFunction};
  return kAll;
}

const Function* FindFunction(loop::Op op) {
  for (const Function* function : AllFunctions()) {
    if (function->op == op) return function;
  }
  return nullptr;
}

}  // namespace kiln::mathlib
