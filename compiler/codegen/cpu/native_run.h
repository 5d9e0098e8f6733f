// Runs generated code in tests, beside the interpreter.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/artifact/abi.h"
#include "compiler/loop/ir.h"

namespace kiln {

// A shared object mapped into this process.
class NativeKernel {
 public:
  // Compiles, links and loads. `target` must be one that this machine runs.
  static absl::StatusOr<NativeKernel> Compile(const loop::Kernel& kernel, std::string_view target);
  static absl::StatusOr<NativeKernel> Load(const std::string& shared_object, const std::string& symbol);
  NativeKernel(NativeKernel&& other) noexcept;
  ~NativeKernel();

  KernelFn* function() const { return function_; }

 private:
  NativeKernel(int fd, void* library, KernelFn* function) : fd_(fd), library_(library), function_(function) {}
  int fd_;  // open as long as the library: dlopen knows it by the name /proc/self/fd/N
  void* library_;
  KernelFn* function_;
};

bool HostRuns(std::string_view target);

// Memory that ends at an inaccessible page: an access behind the last byte is a fault. Not aligned beyond `align`.
class GuardedMemory {
 public:
  GuardedMemory(size_t bytes, size_t align);
  GuardedMemory(GuardedMemory&& other) noexcept;
  ~GuardedMemory();
  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  uint8_t* mapping_;
  size_t mapped_;
  uint8_t* data_;
  size_t size_;
};

// One run: contents of the kernel's buffers before it, as bytes; for a buffer that is only written their number counts.
struct NativeCase {
  std::vector<std::vector<uint8_t>> buffers;
  std::vector<int64_t> sizes;
  int64_t splits = 1;  // calls that the parallel axis is divided among
};

// Contents for buffers.
template <typename T>
std::vector<uint8_t> Zeros(int64_t count) {
  return std::vector<uint8_t>(static_cast<size_t>(count) * sizeof(T));
}
std::vector<uint8_t> RandomFloats(int64_t count, uint32_t seed = 1);                               // f32 in [-4, 4)
std::vector<uint8_t> RandomIntegers(int64_t count, int64_t low, int64_t high, uint32_t seed = 1);  // i64

// Compiles `kernel` for every target; runs it where this machine can; compares all buffers with the interpreter's, bit
// for bit but for which NaN, and whether the error word is zero. OK, or what differs.
absl::Status CompareWithInterpreter(const loop::Kernel& kernel, std::span<const NativeCase> cases);
absl::Status CompareWithInterpreter(std::string_view text, std::span<const NativeCase> cases);

}  // namespace kiln
