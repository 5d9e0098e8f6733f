// One step of the fused graph as kernels.
#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/lower/alias.h"
#include "compiler/lower/nest.h"
#include "compiler/schedule/choose.h"
#include "compiler/schedule/fuse.h"
#include "compiler/schedule/reuse.h"

namespace kiln {

struct LoweredStep {
  std::vector<Schedule> schedules;     // one a group
  std::vector<LoweredKernel> kernels;  // verified, in order of launch; `partial` counts over all groups
  std::vector<LoweredGroup::Partial> partials;
  std::vector<Reuse> reuse;
};

// The groups of one step of `fusion`, scheduled, lowered, and bundled: their first kernels, then those that finish
// them. `may_reuse`: FindReuse's; without it nothing is reused.
absl::StatusOr<LoweredStep> LowerStep(const Graph& graph, const Aliases& aliases, const Fusion& fusion,
                                      const FusedStep& step, const ScheduleTarget& target,
                                      const MayReuse& may_reuse = nullptr);

}  // namespace kiln
