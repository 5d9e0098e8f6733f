// Executes a kernel on host memory, exactly as ir.h and nodes.def say: the answer that generated code is compared with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/loop/ir.h"

namespace kiln::loop {

// Memory of one kGlobal buffer.
struct BufferArg {
  void* data = nullptr;  // element 0; any alignment
  int64_t elements = 0;  // that exist: accesses beyond are OutOfRange, even if the kernel's buffer is larger
};

struct RunOptions {
  int64_t begin = 0;                            // of the parallel axis
  int64_t end = -1;                             // -1: its extent
  uint64_t max_operations = uint64_t{1} << 32;  // Lets, Stores and iterations; beyond: ResourceExhausted
};

struct RunStats {
  uint64_t operations = 0;
  std::vector<uint64_t> reads, writes;  // elements, by BufferId; what a mask leaves out does not count
  // As the error word of the kernel ABI: 0, or 1 + the number (in program order, from 0) of the kCheckIndex that failed
  // first.
  int64_t error = 0;
};

// Runs iterations [begin, end) of the parallel axis in order. `args`: one a kGlobal buffer, in order; `sizes`: one a
// size parameter. The kernel must be verified. InvalidArgument: wrong arguments, a size out of its range. OutOfRange:
// an access beyond a buffer, naming buffer and index; memory may have been written by then. FailedPrecondition: of a
// kernel with several threads a block, two threads meet at an element that one of them stores, without a barrier in
// between.
//
// Which NaN a result has is unspecified. Functions of mathlib that have not been expanded are libm's (see scalar.h).
// Scratch buffers hold 0xff bytes when an iteration of the parallel axis starts. A failed kCheckIndex does not stop the
// run.
absl::StatusOr<RunStats> Interpret(const Kernel& kernel, std::span<const BufferArg> args,
                                   std::span<const int64_t> sizes, const RunOptions& options = {});

}  // namespace kiln::loop
