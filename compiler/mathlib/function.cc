#include "compiler/mathlib/function.h"

namespace kiln::mathlib {

std::span<const Function* const> AllFunctions() {
  static constexpr const Function* kAll[] = {
      &kExpFunction,    &kLogFunction,     &kSinFunction,   &kCosFunction,   &kTanhFunction, &kErfFunction,
      &kRsqrtFunction,  &kPowFunction,     &kExp2Function,  &kExpm1Function, &kLog2Function, &kLog10Function,
      &kLog1pFunction,  &kTanFunction,     &kAsinFunction,  &kAcosFunction,  &kAtanFunction, &kSinhFunction,
      &kCoshFunction,   &kAsinhFunction,   &kAcoshFunction, &kAtanhFunction, &kErfcFunction, &kErfinvFunction,
      &kLgammaFunction, &kDigammaFunction, &kAtan2Function, &kHypotFunction};
  return kAll;
}

const Function* FindFunction(loop::Op op) {
  for (const Function* function : AllFunctions()) {
    if (function->op == op) return function;
  }
  return nullptr;
}

}  // namespace kiln::mathlib
