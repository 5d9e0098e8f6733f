#include "compiler/schedule/lower_step.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compiler/loop/mutate.h"
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

absl::StatusOr<LoweredGroup> LowerAlone(const Graph& graph, const Aliases& aliases, const Group& group,
                                        const ScheduleTarget& target) {
  absl::StatusOr<Probe> probe = ProbeGroup(graph, aliases, group);
  if (!probe.ok()) return probe.status();
  return LowerGroup(graph, aliases, group, ChooseSchedule(graph, group, *probe, target), *probe);
}

// Blocks of one launch have as many threads each.
std::vector<std::vector<LoweredKernel>> ByThreads(std::vector<LoweredKernel> round) {
  std::vector<std::vector<LoweredKernel>> alike;
  for (LoweredKernel& kernel : round) {
    const auto fits = [&](const std::vector<LoweredKernel>& others) {
      return loop::BlockThreads(others[0].kernel) == loop::BlockThreads(kernel.kernel);
    };
    const auto found = std::find_if(alike.begin(), alike.end(), fits);
    (found != alike.end() ? *found : alike.emplace_back()).push_back(std::move(kernel));
  }
  return alike;
}

}  // namespace

absl::StatusOr<LoweredStep> LowerStep(const Graph& graph, const Aliases& aliases, const Fusion& fusion,
                                      const FusedStep& fused, const ScheduleTarget& target, const MayReuse& may_reuse) {
  LoweredStep step;
  const std::span<const Group> groups = std::span(fusion.groups).subspan(fused.index, fused.count);
  std::vector<Probe> probes;
  for (const Group& group : groups) {
    absl::StatusOr<Probe> probe = ProbeGroup(graph, aliases, group);
    if (!probe.ok()) return probe.status();
    probes.push_back(*std::move(probe));
  }
  std::vector<std::vector<LoweredKernel>> rounds;
  const auto add = [&](size_t& round, LoweredGroup lowered) {
    const auto first_partial = static_cast<uint32_t>(step.partials.size());
    step.partials.insert(step.partials.end(), lowered.partials.begin(), lowered.partials.end());
    for (LoweredKernel& kernel : lowered.kernels) {
      for (KernelBuffer& buffer : kernel.buffers) {
        if (buffer.root == kNoValue) buffer.partial += first_partial;
      }
      if (round == rounds.size()) rounds.emplace_back();
      rounds[round].push_back(std::move(kernel));
      ++round;
    }
  };
  for (size_t g = 0; g < groups.size(); ++g) {
    size_t round = 0;
    Schedule schedule = ChooseSchedule(graph, groups[g], probes[g], target);
    if (const std::optional<Group> fill = FillOf(graph, groups[g])) {
      schedule.fill = IsFewElements(graph, *fill);
      if (!schedule.fill) {
        absl::StatusOr<LoweredGroup> lowered = LowerAlone(graph, aliases, *fill, target);
        if (!lowered.ok()) return lowered.status();
        add(round, *std::move(lowered));
      }
    }
    std::vector<Reuse> reuse;
    if (may_reuse) reuse = FindReuse(graph, groups, probes, g, may_reuse);
    absl::StatusOr<LoweredGroup> lowered = LowerGroup(graph, aliases, groups[g], schedule, probes[g], reuse);
    if (!lowered.ok()) return lowered.status();
    add(round, *std::move(lowered));
    step.schedules.push_back(std::move(schedule));
    step.reuse.insert(step.reuse.end(), reuse.begin(), reuse.end());
  }
  for (std::vector<LoweredKernel>& round : rounds) {
    for (std::vector<LoweredKernel>& alike : ByThreads(std::move(round))) {
      if (CanBundle(alike)) {
        step.kernels.push_back(Bundle(graph.syms(), std::move(alike)));
      } else {
        for (LoweredKernel& kernel : alike) step.kernels.push_back(std::move(kernel));
      }
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
