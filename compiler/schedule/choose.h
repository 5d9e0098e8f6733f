// Picks a schedule for a group from what it reads and writes, and from the target's nominal figures.
#pragma once

#include <optional>
#include <string_view>

#include "compiler/graph/graph.h"
#include "compiler/lower/nest.h"

namespace kiln {

// Rows that are so few and so long are cut into pieces for the threads; fusion does not have them gone over again.
inline constexpr int64_t kFewRows = 8;
inline constexpr int64_t kLongRow = 65536;

// What a schedule depends on of the target; a part of the target's own table (codegen/cpu/machine.h,
// codegen/cuda/machine.h).
struct ScheduleTarget {
  uint32_t vector_bytes = 32;  // CPU: of a register
  int64_t shared_bytes = 0;    // GPU: that a block may have; 0: a CPU
  bool on_gpu() const { return shared_bytes > 0; }
};

// Nothing for a name that is no target of this build.
std::optional<ScheduleTarget> FindScheduleTarget(std::string_view target);

// Deterministic. Loops follow memory: dims in the order of the main access's strides, merged where every access steps
// through them as through one. Test: choose_test.cc.
Schedule ChooseSchedule(const Graph& graph, const Group& group, const Probe& probe, const ScheduleTarget& target);

}  // namespace kiln
