// Random kernels for tests: every statement, type and kind of axis, always valid and in bounds.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/loop/interp.h"
#include "compiler/loop/ir.h"

namespace kiln::loop {

struct RandomKernel {
  Kernel kernel;
  std::vector<int64_t> sizes;  // that suit it
};

// The same seed gives the same kernel.
RandomKernel MakeRandomKernel(uint64_t seed);

// Memory for a run of it: `inputs` are drawn from the seed, special values among them.
struct RandomMemory {
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<BufferArg> args;
};
RandomMemory MakeRandomMemory(const RandomKernel& kernel, uint64_t seed);

// Whether two runs wrote the same: bit for bit, but all NaNs are alike.
bool SameMemory(const Kernel& kernel, const RandomMemory& a, const RandomMemory& b);

}  // namespace kiln::loop
