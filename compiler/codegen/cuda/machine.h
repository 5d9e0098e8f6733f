// The CUDA targets: a closed list of names with nominal machine figures. For cost models and schedules; no LLVM here.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace kiln {

// Figures of a typical device of the architecture, not of the one at hand (CUDA C++ Programming Guide, "Technical
// Specifications per Compute Capability", and data sheets).
struct CudaMachine {
  std::string_view name;  // the target's name, LLVM's and ptxas's
  int multiprocessors = 108;
  int threads = 2048;                  // resident, a multiprocessor
  int64_t shared_bytes = 164 << 10;    // a multiprocessor
  double memory_bytes_per_second = 0;  // the device
};

// Shared memory that a block has without asking for more at launch.
inline constexpr int64_t kStaticSharedBytes = 48 << 10;

inline constexpr std::array<CudaMachine, 4> kCudaMachines = {{
    {.name = "sm_80", .multiprocessors = 108, .memory_bytes_per_second = 1.9e12},
    {.name = "sm_86",
     .multiprocessors = 84,
     .threads = 1536,
     .shared_bytes = 100 << 10,
     .memory_bytes_per_second = 0.9e12},
    {.name = "sm_89",
     .multiprocessors = 128,
     .threads = 1536,
     .shared_bytes = 100 << 10,
     .memory_bytes_per_second = 1e12},
    {.name = "sm_90", .multiprocessors = 132, .shared_bytes = 228 << 10, .memory_bytes_per_second = 3.3e12},
}};

// nullptr for a name that is not a CUDA target.
constexpr const CudaMachine* FindCudaMachine(std::string_view target) {
  for (const CudaMachine& machine : kCudaMachines) {
    if (machine.name == target) return &machine;
  }
  return nullptr;
}

}  // namespace kiln
