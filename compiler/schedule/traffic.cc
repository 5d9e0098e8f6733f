#include "compiler/schedule/traffic.h"

#include <algorithm>
#include <optional>
#include <span>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "compiler/lower/index.h"
#include "compiler/lower/nest.h"

namespace kiln {
namespace {

// Elements that an access touches: one for each point of the axes that its index depends on, of all axes where it
// depends on data.
Sym Touched(SymContext& syms, const Group& group, const Probe& probe, const MemoryAccess& access) {
  const bool data = NamesData(syms, access.index);
  Sym count = syms.Const(1);
  for (size_t d = 0; d < group.space.size(); ++d) {
    const std::optional<Var> axis = syms.AsVar(probe.axes[d]);
    if (axis && (data || syms.Mentions(access.index, *axis))) count = syms.Mul(count, group.space[d]);
  }
  return count;
}

absl::StatusOr<int64_t> GroupBytes(const Graph& graph, const Aliases& aliases, const Group& group) {
  SymContext& syms = graph.syms();
  const absl::StatusOr<Probe> probe = ProbeGroup(graph, aliases, group);
  if (!probe.ok()) return probe.status();
  absl::btree_map<std::pair<ValueId, bool>, int64_t> elements;  // by root, and whether it is written
  std::vector<MemoryAccess> seen;
  for (const MemoryAccess& access : probe->accesses) {
    if (access.root == kNoValue || std::find(seen.begin(), seen.end(), access) != seen.end()) continue;
    seen.push_back(access);
    const std::optional<int64_t> touched = syms.AsConst(Touched(syms, group, *probe, access));
    const std::optional<int64_t> all = syms.AsConst(StorageSize(syms, *graph.type(access.root)));
    if (!touched || !all) return absl::UnimplementedError("the traffic of variable sizes");
    int64_t& sum = elements[{access.root, access.store}];
    sum = std::min(sum + *touched, *all);
  }
  int64_t bytes = 0;
  for (const auto& [access, count] : elements) bytes += count * ByteSize(graph.type(access.first)->dtype);
  return bytes;
}

}  // namespace

absl::StatusOr<Traffic> KernelTraffic(const Graph& graph, const Aliases& aliases, const Fusion& fusion) {
  Traffic traffic;
  for (const FusedStep& step : fusion.order) {
    if (step.kind == FusedStep::Kind::kExternal) {
      ++traffic.externals;
      continue;
    }
    ++traffic.steps;
    for (const Group& group : std::span(fusion.groups).subspan(step.index, step.count)) {
      traffic.nodes += static_cast<int64_t>(group.nodes.size());
      absl::StatusOr<int64_t> bytes = GroupBytes(graph, aliases, group);
      if (!bytes.ok()) return bytes.status();
      traffic.bytes += *bytes;
    }
  }
  return traffic;
}

}  // namespace kiln
