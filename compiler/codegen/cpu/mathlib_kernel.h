// A function of mathlib as native code, for tests over many inputs.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "compiler/codegen/cpu/native_run.h"

namespace kiln {

// The best target that this machine runs.
const char* BestTarget();

class MathlibKernel {
 public:
  static absl::StatusOr<MathlibKernel> Compile(loop::Op op, DType type);
  // `count` elements of `type`; y is read for functions of two operands only.
  void Run(const void* x, const void* y, void* result, int64_t count) const;

 private:
  explicit MathlibKernel(NativeKernel kernel) : kernel_(std::move(kernel)) {}
  NativeKernel kernel_;
};

}  // namespace kiln
