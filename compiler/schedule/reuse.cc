#include "compiler/schedule/reuse.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "compiler/ops/op_def.h"

namespace kiln {
namespace {

constexpr size_t kNever = std::numeric_limits<size_t>::max();

// No result of the external call is, or looks into, memory that it was given.
bool ReturnsFresh(const Graph& graph, const Node& node) {
  const std::string_view schema = graph.op_name(node).schema;
  const size_t args = schema.find('(');
  return args != std::string_view::npos && schema.find("Tensor(", args) == std::string_view::npos;
}

const GroupNode* NodeOf(const Graph& graph, const Group& group, ValueId v) {
  for (const GroupNode& at : group.nodes) {
    if (at.node == graph.producer(v)) return &at;
  }
  return nullptr;
}

bool Touches(const Probe& probe, ValueId root) {
  return std::ranges::any_of(probe.accesses, [&](const MemoryAccess& access) { return access.root == root; });
}

bool LoadedAfter(const Probe& probe, ValueId root, uint32_t phase) {
  for (size_t p = phase + 1; p < probe.loads.size(); ++p) {
    for (const MemoryAccess& load : probe.loads[p]) {
      if (load.root == root) return true;
    }
  }
  return false;
}

// Where there are rows the index changes along them, so that nothing outside the rows' loops reads there.
bool AlongRows(const Graph& graph, const Group& group, const Probe& probe, Sym index) {
  bool rows = false, along = false;
  for (size_t d = 0; d < group.space.size(); ++d) {
    if (!group.reduced[d]) continue;
    rows = true;
    const std::optional<Var> axis = graph.syms().AsVar(probe.axes[d]);
    along |= axis && graph.syms().Mentions(index, *axis);
  }
  return !rows || along;
}

// The index that `v` is stored at; nothing if there are several.
std::optional<Sym> StoredAt(const Probe& probe, ValueId v) {
  std::optional<Sym> index;
  for (const MemoryAccess& access : probe.accesses) {
    if (access.root != v) continue;
    if (!access.store || index) return std::nullopt;
    index = access.index;
  }
  return index;
}

bool ReadsOnlyAt(const Probe& probe, ValueId root, Sym index) {
  return std::ranges::all_of(probe.accesses, [&](const MemoryAccess& access) {
    return access.root != root || (!access.store && !access.masked && access.index == index);
  });
}

}  // namespace

LastUses::LastUses(const Graph& graph, const Aliases& aliases, const Fusion& fusion)
    : last_(graph.num_values(), kNever), input_(graph.num_values(), false) {
  for (const GraphInput& input : graph.inputs()) {
    if (input.value != kNoValue) input_[input.value] = true;
  }
  std::vector<bool> kept(graph.num_values(), false);
  const auto keep = [&](ValueId v) { kept[aliases.root(v)] = true; };
  for (const GraphConstant& constant : graph.constants()) keep(constant.value);
  for (const GraphOutput& out : graph.outputs()) {
    if (out.kind == GraphOutput::Kind::kValue) keep(out.value);
  }
  for (const GraphUpdate& update : graph.updates()) keep(update.value);
  std::vector<NodeId> ahead;
  for (size_t step = 0; step < fusion.order.size(); ++step) {
    const FusedStep& fused = fusion.order[step];
    ahead.clear();
    if (fused.kind == FusedStep::Kind::kExternal) {
      ahead.push_back(fused.index);
    } else {
      for (const Group& group : std::span(fusion.groups).subspan(fused.index, fused.count)) {
        for (const GroupNode& at : group.nodes) ahead.push_back(at.node);
      }
    }
    while (!ahead.empty()) {
      const Node& node = graph.nodes()[ahead.back()];
      ahead.pop_back();
      ForEachValue(std::span<const Arg>(node.args), [&](ValueId v) {
        const ValueId root = aliases.root(v);
        if (!kept[root]) last_[root] = step;
        const NodeId p = graph.producer(root);
        if (p != kNoNode && aliases.kind(p) == NodeKind::kInlined) ahead.push_back(p);
      });
    }
  }
}

std::vector<Reuse> FindReuse(const Graph& graph, std::span<const Group> groups, std::span<const Probe> probes,
                             size_t group, const MayReuse& may_reuse) {
  std::vector<Reuse> found;
  const Group& self = groups[group];
  const Probe& probe = probes[group];
  if (self.ordered) return found;
  for (const ValueId v : self.outputs) {
    const GroupNode* at = NodeOf(graph, self, v);
    const std::optional<Sym> index = StoredAt(probe, v);
    if (at == nullptr || at->place != Place::kFull || !index || !AlongRows(graph, self, probe, *index)) continue;
    for (const MemoryAccess& access : probe.accesses) {
      const ValueId r = access.root;
      if (r == kNoValue || access.store || access.index != *index || *graph.type(r) != *graph.type(v)) continue;
      if (!ReadsOnlyAt(probe, r, *index) || LoadedAfter(probe, r, at->phase)) continue;
      bool taken = std::ranges::any_of(found, [&](const Reuse& reuse) { return reuse.dying == r; });
      for (size_t g = 0; g < groups.size(); ++g) taken |= g != group && Touches(probes[g], r);
      if (taken || !may_reuse(v, r)) continue;
      found.push_back({.result = v, .dying = r});
      break;
    }
  }
  return found;
}

HostMemory::HostMemory(const Graph& graph, const Aliases& aliases, const Fusion& fusion, bool recycles)
    : last_uses_(graph, aliases, fusion),
      recycles_(recycles),
      tensor_(graph.num_values(), false),
      places_(graph.num_values()) {
  FindUpdates(graph, aliases);
  const auto need = [&](ValueId v) { tensor_[aliases.root(v)] = true; };
  for (const GraphOutput& out : graph.outputs()) {
    if (out.kind == GraphOutput::Kind::kValue) need(out.value);
  }
  for (const GraphUpdate& update : graph.updates()) need(update.value);
  for (NodeId n = 0; n < graph.nodes().size(); ++n) {
    if (aliases.kind(n) == NodeKind::kExternal) ForEachValue(std::span<const Arg>(graph.nodes()[n].args), need);
  }
  for (NodeId n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    const bool external = aliases.kind(n) == NodeKind::kExternal;
    for (ValueId v = node.first_result; v < node.first_result + node.num_results; ++v) {
      if (external) {
        places_[v] = ReturnsFresh(graph, node) ? Place::kTensor : Place::kForeign;
      } else {
        places_[v] = tensor_[v] ? Place::kTensor : Place::kWorkspace;
      }
    }
  }
}

// An update whose value is no output, and of one input only.
void HostMemory::FindUpdates(const Graph& graph, const Aliases& aliases) {
  absl::flat_hash_map<ValueId, int> uses;  // by root
  for (const GraphOutput& out : graph.outputs()) {
    if (out.kind == GraphOutput::Kind::kValue) ++uses[aliases.root(out.value)];
  }
  for (const GraphUpdate& update : graph.updates()) ++uses[aliases.root(update.value)];
  for (const GraphUpdate& update : graph.updates()) {
    const ValueId v = update.value;
    if (aliases.root(v) == v && uses[v] == 1) updates_.emplace(v, graph.inputs()[update.input].value);
  }
}

MayReuse HostMemory::During(size_t step) const {
  return [this, step](ValueId result, ValueId dying) {
    const auto update = updates_.find(result);
    if (update != updates_.end() && update->second == dying) return last_uses_.InputIsLastReadIn(dying, step);
    if (!recycles_ || !last_uses_.DiesIn(dying, step) || places_[dying] == Place::kForeign) return false;
    return places_[dying] == Place::kTensor || !tensor_[result];
  };
}

void HostMemory::Note(std::span<const Reuse> reuse) {
  for (const Reuse& pair : reuse) places_[pair.result] = places_[pair.dying];
}

}  // namespace kiln
