// The CUDA targets: a closed list of names. For cost models and schedules; no LLVM here.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace kiln {

struct CudaMachine {
  std::string_view name;  // the target's name, LLVM's and ptxas's
};

// Shared memory that a block of any of them has without asking for more at launch (CUDA C++ Programming Guide).
inline constexpr int64_t kStaticSharedBytes = 48 << 10;

inline constexpr std::array<CudaMachine, 4> kCudaMachines = {{{"sm_80"}, {"sm_86"}, {"sm_89"}, {"sm_90"}}};

// nullptr for a name that is not a CUDA target.
constexpr const CudaMachine* FindCudaMachine(std::string_view target) {
  for (const CudaMachine& machine : kCudaMachines) {
    if (machine.name == target) return &machine;
  }
  return nullptr;
}

}  // namespace kiln
