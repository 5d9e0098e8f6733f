// The CPU targets: a closed list of names with nominal machine figures. For cost models and schedules; no LLVM here.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace kiln {

// Figures of a typical core of the level, not of the host: they enter schedules, so a key must not depend on where the
// compiler runs.
struct CpuMachine {
  std::string_view name;  // the target's name, and LLVM's
  int vector_bytes = 16;  // of one register
  int vector_registers = 16;
  bool fma = false;
  bool half_conversion = false;  // f16 <-> f32 instructions
  // Smallest element, in bytes, with masked vector loads and stores, and with masked gathers; 16: none.
  int masked_access_bytes = 16;
  int masked_gather_bytes = 16;
  int cache_line_bytes = 64;
  int64_t l1_bytes = 0;                // data, a core
  int64_t l2_bytes = 0;                // a core
  double memory_bytes_per_second = 0;  // one core, streaming
};

inline constexpr std::array<CpuMachine, 3> kCpuMachines = {{
    {.name = "x86-64-v2",
     .vector_bytes = 16,
     .vector_registers = 16,
     .l1_bytes = 32 << 10,
     .l2_bytes = 256 << 10,
     .memory_bytes_per_second = 8e9},
    {.name = "x86-64-v3",
     .vector_bytes = 32,
     .vector_registers = 16,
     .fma = true,
     .half_conversion = true,
     .masked_access_bytes = 4,
     .l1_bytes = 32 << 10,
     .l2_bytes = 512 << 10,
     .memory_bytes_per_second = 12e9},
    {.name = "x86-64-v4",
     .vector_bytes = 64,
     .vector_registers = 32,
     .fma = true,
     .half_conversion = true,
     .masked_access_bytes = 1,
     .masked_gather_bytes = 4,
     .l1_bytes = 32 << 10,
     .l2_bytes = 1 << 20,
     .memory_bytes_per_second = 12e9},
}};

// nullptr for a name that is not a CPU target. Which of them a host can run is the client's to find out.
constexpr const CpuMachine* FindCpuMachine(std::string_view target) {
  for (const CpuMachine& machine : kCpuMachines) {
    if (machine.name == target) return &machine;
  }
  return nullptr;
}

}  // namespace kiln
