#include "compiler/schedule/lower_step.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"
#include "compiler/lower/bundle.h"

namespace kiln {

absl::StatusOr<LoweredStep> LowerStep(const Graph& graph, const Aliases& aliases, const Fusion& fusion,
                                      const FusedStep& fused, const ScheduleTarget& target) {
  LoweredStep step;
  std::vector<std::vector<LoweredKernel>> rounds;
  for (const Group& group : std::span(fusion.groups).subspan(fused.index, fused.count)) {
    absl::StatusOr<Probe> probe = ProbeGroup(graph, aliases, group);
    if (!probe.ok()) return probe.status();
    step.schedules.push_back(ChooseSchedule(graph, group, *probe, target));
    absl::StatusOr<LoweredGroup> lowered = LowerGroup(graph, aliases, group, step.schedules.back(), *probe);
    if (!lowered.ok()) return lowered.status();
    const auto first_partial = static_cast<uint32_t>(step.partials.size());
    step.partials.insert(step.partials.end(), lowered->partials.begin(), lowered->partials.end());
    for (size_t k = 0; k < lowered->kernels.size(); ++k) {
      if (k == rounds.size()) rounds.emplace_back();
      for (KernelBuffer& buffer : lowered->kernels[k].buffers) buffer.partial += first_partial;
      rounds[k].push_back(std::move(lowered->kernels[k]));
    }
  }
  // So little work is never cut into chunks.
  if (fused.serial && rounds.size() > 1) return absl::InternalError("a serial step takes two rounds of kernels");
  for (std::vector<LoweredKernel>& round : rounds) {
    if (CanBundle(round)) {
      step.kernels.push_back(Bundle(graph.syms(), std::move(round), fused.serial));
    } else {
      for (LoweredKernel& kernel : round) step.kernels.push_back(std::move(kernel));
    }
  }
  for (const LoweredKernel& kernel : step.kernels) {
    absl::Status status = loop::Verify(kernel.kernel);
    if (!status.ok())
      return absl::InternalError(absl::StrCat(std::string(status.message()), "\n", loop::ToText(kernel.kernel)));
  }
  return step;
}

}  // namespace kiln
