// The CUDA targets, and the machines that code is generated for: closed lists. For cost models and schedules; no LLVM
// here.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace kiln {

// A machine that LLVM generates PTX for.
struct CudaMachine {
  std::string_view name;  // LLVM's
};

// A target: the compute capability of a device, "sm_NN" as ptxas spells it. Its code is `machine`'s PTX, assembled for
// the device itself or, by a ptxas that does not know it, for the machine, where devices of one major version run each
// other's older code.
struct CudaTarget {
  std::string_view name;
  const CudaMachine* machine;
  bool compatible;  // runs the machine's own cubins
};

// Shared memory that a block of any of them has without asking for more at launch (CUDA C++ Programming Guide).
inline constexpr int64_t kStaticSharedBytes = 48 << 10;

inline constexpr std::array<CudaMachine, 4> kCudaMachines = {{{"sm_80"}, {"sm_86"}, {"sm_89"}, {"sm_90"}}};

inline constexpr std::array<CudaTarget, 10> kCudaTargets = {{
    {"sm_80", &kCudaMachines[0], true},
    {"sm_86", &kCudaMachines[1], true},
    {"sm_87", &kCudaMachines[1], true},
    {"sm_89", &kCudaMachines[2], true},
    {"sm_90", &kCudaMachines[3], true},
    {"sm_100", &kCudaMachines[3], false},
    {"sm_103", &kCudaMachines[3], false},
    {"sm_110", &kCudaMachines[3], false},
    {"sm_120", &kCudaMachines[3], false},
    {"sm_121", &kCudaMachines[3], false},
}};

// nullptr for a name that is not a CUDA target.
constexpr const CudaTarget* FindCudaTarget(std::string_view name) {
  for (const CudaTarget& target : kCudaTargets) {
    if (target.name == name) return &target;
  }
  return nullptr;
}

}  // namespace kiln
