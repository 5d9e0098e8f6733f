#include "compiler/schedule/lower_step.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"
#include "compiler/lower/bundle.h"

namespace kiln {
namespace {

// What a scatter's results hold before its updates, as a group of its own; nothing if there is no such thing.
std::optional<Group> FillOf(const Graph& graph, const Group& group) {
  const Node& node = graph.nodes()[group.nodes[0].node];
  if (!group.ordered || node.def->lower == nullptr) return std::nullopt;
  const Index& sizes = Call(graph, node).result().sizes;
  const std::vector<bool> none(sizes.size(), false);
  return Group{.space = sizes,
               .reduced = none,
               .sunk = none,
               .nodes = {{.node = group.nodes[0].node}},
               .outputs = group.outputs};
}

// Columns of the results, a cache line or more of each row, fill as fast as rows while all of it stays in cache.
bool IsFewElements(const Graph& graph, const Group& fill) {
  constexpr int64_t kFew = 65536;
  const std::optional<int64_t> elements = graph.syms().AsConst(NumElements(graph.syms(), fill.space));
  return elements && *elements <= kFew;
}

}  // namespace

absl::StatusOr<LoweredStep> LowerStep(const Graph& graph, const Aliases& aliases, const Fusion& fusion,
                                      const FusedStep& fused, const ScheduleTarget& target) {
  LoweredStep step;
  std::vector<std::vector<LoweredKernel>> rounds;
  for (const Group& group : std::span(fusion.groups).subspan(fused.index, fused.count)) {
    size_t round = 0;
    const std::optional<Group> fill = FillOf(graph, group);
    const bool filled_inside = fill && IsFewElements(graph, *fill);
    const auto lower = [&](const Group& part) -> absl::Status {
      absl::StatusOr<Probe> probe = ProbeGroup(graph, aliases, part);
      if (!probe.ok()) return probe.status();
      Schedule schedule = ChooseSchedule(graph, part, *probe, target);
      schedule.fill = filled_inside;
      absl::StatusOr<LoweredGroup> lowered = LowerGroup(graph, aliases, part, schedule, *probe);
      if (!lowered.ok()) return lowered.status();
      if (&part == &group) step.schedules.push_back(std::move(schedule));
      const auto first_partial = static_cast<uint32_t>(step.partials.size());
      step.partials.insert(step.partials.end(), lowered->partials.begin(), lowered->partials.end());
      for (LoweredKernel& kernel : lowered->kernels) {
        for (KernelBuffer& buffer : kernel.buffers) {
          if (buffer.root == kNoValue) buffer.partial += first_partial;
        }
        if (round == rounds.size()) rounds.emplace_back();
        rounds[round].push_back(std::move(kernel));
        round += fused.serial ? 0 : 1;
      }
      return absl::OkStatus();
    };
    if (fill && !filled_inside) {
      if (absl::Status status = lower(*fill); !status.ok()) return status;
    }
    if (absl::Status status = lower(group); !status.ok()) return status;
  }
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
