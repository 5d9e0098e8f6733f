#include "compiler/schedule/fuse.h"

#include <algorithm>
#include <utility>

#include "compiler/lower/access.h"
#include "compiler/ops/registry.h"
#include "compiler/schedule/fuser.h"
#include "compiler/schedule/profit.h"

namespace kiln {

absl::StatusOr<Fusion> Fuse(const Graph& graph, const Aliases& aliases, const FusionLimits& limits) {
  return Fuser(graph, aliases, limits).Run();
}

Fuser::Fuser(const Graph& graph, const Aliases& aliases, const FusionLimits& limits)
    : graph_(graph),
      syms_(graph.syms()),
      aliases_(aliases),
      limits_(limits),
      item_of_(graph.nodes().size(), kNoItem),
      placed_(graph.nodes().size()) {}

absl::StatusOr<Fusion> Fuser::Run() {
  FindNeededInMemory();
  for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
    switch (aliases_.kind(n)) {
      case NodeKind::kView:
        break;
      case NodeKind::kExternal:
        AddExternal(n);
        break;
      case NodeKind::kInlined:
        if (IsNeededInMemory(n)) NewGroup(n);
        break;
      case NodeKind::kOrdered:
        NewGroup(n);
        Connect(n, Producers(n));
        break;
      case NodeKind::kPointwise:
      case NodeKind::kReduction:
        if (absl::Status s = PlaceNode(n); !s.ok()) return s;
        break;
    }
  }
  MergeSiblings();
  MarkReadOutside();
  if (limits_.bundle) BundleSmall();
  return Finish();
}

bool Fuser::IsNeededInMemory(NodeId n) const {
  const Node& node = graph_.nodes()[n];
  for (uint32_t r = 0; r < node.num_results; ++r) {
    if (graph_.type(node.first_result + r) != nullptr && in_memory_[node.first_result + r]) return true;
  }
  return false;
}

// Values that something outside every kernel reads.
void Fuser::FindNeededInMemory() {
  in_memory_.assign(graph_.num_values(), false);
  const auto need = [&](ValueId v) { in_memory_[aliases_.root(v)] = true; };
  for (const GraphOutput& out : graph_.outputs()) {
    if (out.kind == GraphOutput::Kind::kValue) need(out.value);
  }
  for (const GraphUpdate& update : graph_.updates()) need(update.value);
  for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
    if (aliases_.kind(n) == NodeKind::kExternal) ForEachValue(std::span<const Arg>(graph_.nodes()[n].args), need);
  }
}

uint32_t Fuser::Find(uint32_t item) {
  while (parent_[item] != item) item = parent_[item] = parent_[parent_[item]];
  return item;
}

uint32_t Fuser::NewItem(Item item) {
  parent_.push_back(static_cast<uint32_t>(items_.size()));
  items_.push_back(std::move(item));
  return parent_.back();
}

std::vector<uint32_t> Fuser::LiveItems() {
  std::vector<uint32_t> live;
  for (uint32_t i = 0; i < items_.size(); ++i) {
    if (Find(i) == i) live.push_back(i);
  }
  return live;
}

// Items that compute the operands of `n`, distinct, in order of first use.
std::vector<uint32_t> Fuser::Producers(NodeId n) {
  std::vector<uint32_t> items;
  ForEachRoot(n, [&](ValueId root) {
    const NodeId p = graph_.producer(root);
    if (p == kNoNode) return;
    const uint32_t item = ItemOf(p);
    if (item != kNoItem && std::find(items.begin(), items.end(), item) == items.end()) items.push_back(item);
  });
  return items;
}

// Calls f(root) for what `n` reads, a kernel through inlined nodes.
void Fuser::ForEachRoot(NodeId n, absl::FunctionRef<void(ValueId)> f) const {
  ForEachValue(std::span<const Arg>(graph_.nodes()[n].args), [&](ValueId v) {
    const ValueId root = aliases_.root(v);
    const NodeId p = graph_.producer(root);
    if (p != kNoNode && aliases_.kind(p) == NodeKind::kInlined && aliases_.kind(n) != NodeKind::kExternal) {
      ForEachRoot(p, f);
    } else {
      f(root);
    }
  });
}

void Fuser::Connect(NodeId n, std::span<const uint32_t> producers) {
  const uint32_t self = ItemOf(n);
  for (const uint32_t p : producers) {
    if (Find(p) != self) items_[Find(p)].consumers.push_back(n);
  }
}

// An external call that draws random numbers, or that has effects, comes after the one before it.
bool Fuser::Ordered(NodeId n) const {
  const Traits traits = TraitsOf(Call(graph_, graph_.nodes()[n]));
  return traits.random || traits.effect;
}

void Fuser::AddExternal(NodeId n) {
  const std::vector<uint32_t> producers = Producers(n);
  Item item;
  item.external = n;
  for (const uint32_t p : producers) item.level = std::max(item.level, items_[p].level + 1);
  if (Ordered(n) && last_ordered_ != kNoItem) {
    item.level = std::max(item.level, items_[last_ordered_].level + 1);
    items_[last_ordered_].consumers.push_back(n);
  }
  item_of_[n] = NewItem(std::move(item));
  if (Ordered(n)) last_ordered_ = item_of_[n];
  Connect(n, producers);
}

// The space that `n` would iterate over alone.
SpaceShape Fuser::ShapeOf(NodeId n) const {
  const Call call(graph_, graph_.nodes()[n]);
  const auto along = [](const Index& sizes, std::span<const int64_t> dims) {
    SpaceShape shape{.sizes = sizes, .reduced = DimMask(sizes.size(), false)};
    for (const int64_t d : dims) (*shape.reduced)[d] = true;
    return shape;
  };
  switch (aliases_.kind(n)) {
    case NodeKind::kReduction:
      return along(call.type(0).sizes, call.node().def->reduce(call).dims);
    case NodeKind::kOrdered: {
      const OrderSpec spec = call.node().def->order(call);
      return along(spec.sizes, spec.dims);
    }
    default:
      return {.sizes = call.result().sizes};
  }
}

void Fuser::NewGroup(NodeId n) {
  const bool reduction = aliases_.kind(n) == NodeKind::kReduction;
  Item item;
  item.space = GroupSpace(syms_, ShapeOf(n));
  for (const uint32_t p : Producers(n)) item.level = std::max(item.level, items_[p].level + 1);
  const uint32_t made = NewItem(std::move(item));
  Add(made, {.node = n, .place = reduction ? Place::kOuter : Place::kFull, .phase = reduction ? 1u : 0u});
}

void Fuser::Add(uint32_t item, const GroupNode& at) {
  const bool waits = at.place == Place::kFull ? at.phase > 0 : at.phase > 1;
  if (waits) items_[item].space.ForbidSinking();
  items_[item].nodes.push_back(at);
  placed_[at.node] = at;
  item_of_[at.node] = item;
}

// Whether the item can have more nodes.
bool Fuser::IsOpen(const Item& item) const {
  return item.external == kNoNode && aliases_.kind(item.nodes[0].node) != NodeKind::kOrdered;
}

// Joins the highest producer group that will have it, then merges the others into that.
absl::Status Fuser::PlaceNode(NodeId n) {
  const std::vector<uint32_t> producers = Producers(n);
  std::vector<uint32_t> candidates = producers;
  std::sort(candidates.begin(), candidates.end(),
            [&](uint32_t a, uint32_t b) { return std::pair(items_[b].level, a) < std::pair(items_[a].level, b); });
  bool joined = false;
  for (const uint32_t candidate : candidates) {
    const uint32_t item = Find(candidate);
    if (!IsOpen(items_[item])) continue;
    if (!joined) {
      absl::StatusOr<bool> ok = TryJoin(n, item, producers);
      if (!ok.ok()) return ok.status();
      joined = *ok;
    } else if (item != ItemOf(n)) {
      absl::Status status = TryMergeProducer(n, item);
      if (!status.ok()) return status;
    }
  }
  if (!joined) NewGroup(n);
  Connect(n, producers);
  return absl::OkStatus();
}

// The level that `item` would need to stand after `least`; nothing if a consumer of it could then come first.
std::optional<uint32_t> Fuser::LevelAfter(uint32_t item, uint32_t least, uint32_t except) {
  const uint32_t level = std::max(items_[item].level, least);
  if (level == items_[item].level) return level;
  if (items_[item].consumers.size() > limits_.consumers_looked_at) return std::nullopt;
  for (const NodeId c : items_[item].consumers) {
    const uint32_t consumer = ItemOf(c);
    if (consumer == item || consumer == except) continue;
    if (items_[consumer].level <= level) return std::nullopt;
  }
  return level;
}

absl::StatusOr<bool> Fuser::TryJoin(NodeId n, uint32_t item, std::span<const uint32_t> producers) {
  if (items_[item].nodes.size() >= limits_.group_nodes) return false;
  uint32_t least = 0;
  for (const uint32_t p : producers) {
    if (Find(p) != item) least = std::max(least, items_[Find(p)].level + 1);
  }
  const std::optional<uint32_t> level = LevelAfter(item, least, kNoItem);
  if (!level) return false;
  std::optional<CombinedSpace> combined;
  GroupSpace space = items_[item].space;
  if (aliases_.kind(n) == NodeKind::kReduction) {
    combined = WithReduction(space, ShapeOf(n));
    if (!combined) return false;
    space = GroupSpace(syms_, combined->shape);
  }
  const bool sinks = combined && combined->sink_first;
  const std::vector<GroupNode> before = sinks ? items_[item].nodes : std::vector<GroupNode>();
  if (sinks) SinkReductions(item);
  absl::StatusOr<std::optional<GroupNode>> at = Fit(n, item, space);
  if (!at.ok()) return at.status();
  if (!*at) {
    for (const GroupNode& node : before) placed_[node.node] = node;
    if (sinks) items_[item].nodes = before;
    return false;
  }
  items_[item].space = std::move(space);
  items_[item].level = *level;
  Add(item, **at);
  return true;
}

// The space of a group and of a reduction that reads it, at full points or, if it folds all of them, at outer ones.
std::optional<CombinedSpace> Fuser::WithReduction(const GroupSpace& space, const SpaceShape& reduction) {
  if (std::optional<CombinedSpace> combined = Combine(syms_, space.shape(), reduction)) return combined;
  if (!space.has(Place::kOuter) || !FoldsAll(syms_, reduction) ||
      NumElements(syms_, reduction.sizes) != space.part(Place::kOuter).count)
    return std::nullopt;
  const std::optional<SpaceShape> shape = WithOuterSinks(syms_, space.shape());
  return shape ? std::optional(CombinedSpace{.shape = *shape}) : std::nullopt;
}

// Where `n` would stand in the group if the group's space were `space`, which holds `n`'s own reduction: nothing if an
// operand that the group computes is read at another position.
absl::StatusOr<std::optional<GroupNode>> Fuser::Fit(NodeId n, uint32_t item, const GroupSpace& space) {
  if (aliases_.kind(n) == NodeKind::kReduction) {
    const bool full = Combine(syms_, space.shape(), ShapeOf(n)).has_value();
    return FitAt(n, item, space, full ? Place::kFull : Place::kOuter);
  }
  const Sym count = NumElements(syms_, Call(graph_, graph_.nodes()[n]).result().sizes);
  for (const Place place : {Place::kFull, Place::kOuter, Place::kKept}) {
    if (!space.has(place) || space.part(place).count != count) continue;
    absl::StatusOr<std::optional<GroupNode>> at = FitAt(n, item, space, place);
    if (!at.ok() || *at) return at;
  }
  return std::nullopt;
}

// With `n`'s results (a reduction's: its operand) at `place`.
absl::StatusOr<std::optional<GroupNode>> Fuser::FitAt(NodeId n, uint32_t item, const GroupSpace& space, Place place) {
  const bool reduction = aliases_.kind(n) == NodeKind::kReduction;
  const Call call(graph_, graph_.nodes()[n]);
  const Index& sizes = reduction ? call.type(0).sizes : call.result().sizes;
  const GroupSpace::Part& part = space.part(place);
  const Index index = Reindex(syms_, part.axes, part.sizes, sizes);
  absl::StatusOr<std::vector<OperandAccess>> accesses = OperandAccesses(graph_, call.node(), index);
  if (!accesses.ok()) return accesses.status();
  GroupNode at{.node = n, .place = place, .phase = 0};
  for (OperandAccess& access : *accesses) {
    const NodeId p = graph_.producer(aliases_.root(access.value));
    if (p == kNoNode || ItemOf(p) != item) continue;
    ThroughViews(graph_, aliases_.roots(), access);
    const GroupNode& producer = placed_[p];
    at.phase = std::max(at.phase, producer.phase);
    // An element or two of its own row are computed once more.
    if (producer.place == Place::kFull && place == Place::kOuter && !reduction && IsOfRow(space, access)) continue;
    const Sym read = Linearize(syms_, access.index, graph_.type(access.value)->sizes);
    if (access.masked || read != space.part(producer.place).position) return std::nullopt;
    if (producer.place != place && !(producer.place == Place::kOuter && place == Place::kFull)) return std::nullopt;
  }
  if (reduction) {
    const std::optional<CombinedSpace> own = Combine(syms_, space.shape(), ShapeOf(n));
    const bool sink = place == Place::kOuter || (own && own->sink_second);
    at.place = sink ? Place::kKept : Place::kOuter;
    if (!sink) ++at.phase;
  }
  if (at.phase >= limits_.phases) return std::nullopt;
  if (at.place == Place::kFull && at.phase > 0 && !PaysToPassAgain(syms_, space, call.result())) return std::nullopt;
  return at;
}

// Whether the access, by an outer node at its point, is to the row of that point, somewhere.
bool Fuser::IsOfRow(const GroupSpace& space, const OperandAccess& access) {
  const SpaceShape& shape = space.shape();
  const Index at = Reindex(syms_, access.index, graph_.type(access.value)->sizes, shape.sizes);
  for (size_t d = 0; d < at.size(); ++d) {
    if (!(*shape.reduced)[d] && at[d] != space.part(Place::kFull).axes[d]) return false;
  }
  return true;
}

// The item's row reductions, which nothing at full points waits for, are sinks from now on.
void Fuser::SinkReductions(uint32_t item) {
  for (GroupNode& at : items_[item].nodes) {
    if (at.place != Place::kOuter) continue;
    at.place = Place::kKept;
    at.phase = 0;
    placed_[at.node] = at;
  }
}

}  // namespace kiln
