// Evaluates a straight line of scalar statements on many inputs at once: what exhaustive tests of mathlib run on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/loop/ir.h"

namespace kiln::loop {

struct BatchInput {
  ValueId value = kNone;
  DType type = DType::kFloat32;
};

// A compiled sequence of Lets. Bit-equal to the interpreter, but for which NaN; some nanoseconds an element and
// operation. Not thread-safe.
class Batch {
 public:
  // Computes `output` from `inputs` by `block`, which holds Lets on bool, integers, f32 and f64 only, none of them a
  // load, kIndex, kCheckIndex or function of mathlib. InvalidArgument otherwise, or if a value is not defined.
  static absl::StatusOr<Batch> Make(const Block& block, std::span<const BatchInput> inputs, ValueId output);

  // Reads `count` elements of each input and writes as many of the output, all contiguous, in their own types.
  void Run(std::span<const void* const> inputs, void* output, size_t count);

 private:
  static constexpr size_t kLanes = 256;
  using StepFn = void (*)(const void* const args[3], void* result, size_t count);
  struct Column {
    size_t width = 0;  // bytes of an element
    std::vector<uint64_t> data;
  };
  struct Step {
    StepFn run = nullptr;
    uint32_t result = 0;
    uint32_t args[3] = {};
  };

  std::vector<Column> columns_;
  std::vector<Step> steps_;
  std::vector<uint32_t> inputs_;
  uint32_t output_ = 0;
};

}  // namespace kiln::loop
