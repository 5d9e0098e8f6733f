// Evaluates definitions on many inputs and measures their errors, for tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "compiler/loop/batch.h"
#include "compiler/mathlib/function.h"

namespace kiln::mathlib {

// A definition compiled for batches. T: float or double.
template <typename T>
class Evaluator {
 public:
  explicit Evaluator(const Function& function);
  // y is read for functions of two operands only.
  void Run(const T* x, const T* y, T* result, size_t count);
  size_t num_operations() const { return num_operations_; }
  const absl::Status& status() const { return status_; }

 private:
  bool binary_;
  size_t num_operations_ = 0;
  absl::Status status_;
  loop::Batch batch_;
};

// Distance of `got` from `want` in units of the last place of T at `want`; 2^-149 (2^-1074) is the unit of subnormal
// numbers, and infinity counts as the power of two that would follow the largest number. Infinite if one is NaN and the
// other is not. Where |want| is below `floor`, the unit is that of the floor.
double UlpError(float got, double want, double floor = 0);
double UlpError(double got, long double want, double floor = 0);

}  // namespace kiln::mathlib
