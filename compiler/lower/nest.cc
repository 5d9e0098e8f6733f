#include "compiler/lower/nest.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/lower/group_lowering.h"

namespace kiln {
namespace {

using Stage = GroupLowering::Stage;

bool HasSinks(const Group& group) { return std::find(group.sunk.begin(), group.sunk.end(), true) != group.sunk.end(); }

// The group with sinks for row reductions.
Group WithSinks(Group group) {
  std::swap(group.reduced, group.sunk);
  for (GroupNode& at : group.nodes) {
    if (at.place == Place::kOuter) at = {.node = at.node, .place = Place::kKept, .phase = 0};
  }
  return group;
}

// Over the dims that are not sunk, which are few or already spread over threads.
Schedule FinishSchedule(const Group& group, const Schedule& main) {
  constexpr int64_t kBlock = 64;
  constexpr uint32_t kFinishThreads = 256, kFinishAccumulators = 8;  // GPU
  Schedule finish = main;
  finish.sink = Schedule::Sink::kNone;
  finish.columns = false;
  const auto outer = main.dims.begin() + main.num_outer;
  finish.dims = main.sink == Schedule::Sink::kOutside ? std::vector(outer, main.dims.end())
                                                      : std::vector(main.dims.begin(), outer);
  if (group.sinks_outer) finish.dims.clear();
  finish.num_outer = static_cast<int>(finish.dims.size());
  finish.block = kBlock;
  if (main.on_gpu()) {
    // A block for a single point, or for as many as a warp has threads: see FinishInGroups.
    finish.lanes = 1;
    finish.block = loop::kWarp;
    finish.width = finish.dims.empty() ? kFinishThreads : kFinishGroups * loop::kWarp;
    finish.accumulators = kFinishAccumulators;
    finish.registers = false;
  }
  return finish;
}

}  // namespace

std::string Schedule::ToString() const {
  std::string text = columns ? "columns" : "rows";
  if (sink != Sink::kNone) absl::StrAppend(&text, sink == Sink::kOutside ? " sinks outside" : " sinks inside");
  for (size_t i = 0; i < dims.size(); ++i) {
    absl::StrAppend(&text, i == static_cast<size_t>(num_outer) ? " | " : " ", "(", absl::StrJoin(dims[i], ","), ")");
  }
  if (tiled >= 0) absl::StrAppend(&text, " tile ", tile, " of (", absl::StrJoin(dims[tiled], ","), ")");
  absl::StrAppend(&text, " width ", width,
                  on_gpu() ? absl::StrCat(" lanes ", lanes, registers ? " registers" : "") : "", " accumulators ",
                  accumulators, " block ", block);
  return text;
}

bool IsAcross(SymContext& syms, const MemoryAccess& access, Var along, Var vector) {
  if (access.store || access.masked || access.root == kNoValue) return false;
  const std::optional<SymContext::Linear> a = syms.AsLinear(access.index, along),
                                          v = syms.AsLinear(access.index, vector);
  if (!a || !v || !syms.IsConst(a->coefficient, 1)) return false;
  const std::optional<int64_t> stride = syms.AsConst(v->coefficient);
  return !stride || *stride > 1 || *stride < 0;
}

absl::StatusOr<Probe> ProbeGroup(const Graph& graph, const Aliases& aliases, const Group& group) {
  return GroupLowering(graph, aliases, group, Schedule(), Stage::kProbe).Run();
}

absl::StatusOr<LoweredGroup> LowerGroup(const Graph& graph, const Aliases& aliases, const Group& given,
                                        const Schedule& schedule, const Probe& probe, std::span<const Reuse> reuse) {
  const bool convert = schedule.sink != Schedule::Sink::kNone && !HasSinks(given);
  const Group converted = convert ? WithSinks(given) : Group();
  const Group& group = convert ? converted : given;
  LoweredGroup lowered;
  GroupLowering main(graph, aliases, group, schedule, Stage::kMain);
  main.UseProbe(probe);
  main.UseReuse(reuse);
  absl::StatusOr<LoweredKernel> kernel = main.Lower();
  if (!kernel.ok()) return kernel.status();
  lowered.kernels.push_back(*std::move(kernel));
  lowered.partials = main.partials();
  if (main.finished()) return lowered;
  const Schedule finish_schedule = FinishSchedule(group, schedule);
  GroupLowering finish(graph, aliases, group, finish_schedule, Stage::kFinish);
  finish.After(main);
  kernel = finish.Lower();
  if (!kernel.ok()) return kernel.status();
  lowered.kernels.push_back(*std::move(kernel));
  return lowered;
}

}  // namespace kiln
