// Measures the largest error of a definition over many inputs, for tests.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/mathlib/function.h"

namespace kiln::mathlib {

template <typename T>
struct Worst {
  double error = 0;  // in units of the last place, see evaluate.h
  T x = 0, y = 0, got = 0;
  uint64_t count = 0;
  std::string Describe() const;
};

// Bit patterns first, first + stride … below 2^32. For two operands the second is drawn: any bits, or such that the
// result is finite. `floor` is UlpError's.
Worst<float> MeasureF32(const Function& function, uint32_t first, uint64_t stride, double floor = 0);

// `count` inputs drawn from `seed`: any bits, and ranges where functions are difficult.
Worst<double> MeasureF64(const Function& function, uint64_t seed, uint64_t count, double floor = 0);

}  // namespace kiln::mathlib
