#include "compiler/schedule/fuse.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "compiler/ops/registry.h"

namespace kiln {
namespace {

constexpr uint32_t kNoItem = 0xffffffff;

// A group while it grows, or an external call.
struct Item {
  Group group;
  NodeId external = kNoNode;
  Index axes;     // one a dim of the group's space
  Index outer_axes, outer_sizes;  // those of the dims that are not reduced
  Sym full;       // position in the space
  Sym outer;      // position in the space without its reduced dims
  Sym num_full;   // number of positions
  Sym num_outer;
  uint32_t level = 0;
  std::vector<NodeId> consumers;  // nodes outside that read a value of this item
};

class Fuser {
 public:
  Fuser(const Graph& graph, const Aliases& aliases, const FusionLimits& limits)
      : graph_(graph),
        syms_(graph.syms()),
        aliases_(aliases),
        limits_(limits),
        item_of_(graph.nodes().size(), kNoItem),
        placed_(graph.nodes().size()) {}

  absl::StatusOr<Fusion> Run() {
    FindNeededInMemory();
    for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
      switch (aliases_.kind(n)) {
        case NodeKind::kView:
          break;
        case NodeKind::kExternal:
          AddExternal(n);
          break;
        case NodeKind::kCreation:
          if (AnyResult(n, [&](ValueId v) { return in_memory_[v]; })) NewGroup(n);
          break;
        case NodeKind::kPointwise:
        case NodeKind::kReduction:
          if (absl::Status s = Place(n); !s.ok()) return s;
          break;
      }
    }
    return Finish();
  }

 private:
  template <typename F>
  bool AnyResult(NodeId n, F&& f) const {
    const Node& node = graph_.nodes()[n];
    for (uint32_t r = 0; r < node.num_results; ++r) {
      if (graph_.type(node.first_result + r) != nullptr && f(node.first_result + r)) return true;
    }
    return false;
  }

  // Values that something outside every kernel reads.
  void FindNeededInMemory() {
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

  uint32_t Find(uint32_t item) {
    while (parent_[item] != item) item = parent_[item] = parent_[parent_[item]];
    return item;
  }
  uint32_t ItemOf(NodeId n) { return item_of_[n] == kNoItem ? kNoItem : Find(item_of_[n]); }

  // Items that compute the operands of `n`, distinct, in order of first use.
  std::vector<uint32_t> Producers(NodeId n) {
    std::vector<uint32_t> items;
    ForEachValue(std::span<const Arg>(graph_.nodes()[n].args), [&](ValueId v) {
      const NodeId p = graph_.producer(aliases_.root(v));
      if (p == kNoNode) return;
      const uint32_t item = ItemOf(p);
      if (item != kNoItem && std::find(items.begin(), items.end(), item) == items.end()) items.push_back(item);
    });
    return items;
  }

  uint32_t NewItem(Item item) {
    parent_.push_back(static_cast<uint32_t>(items_.size()));
    items_.push_back(std::move(item));
    return parent_.back();
  }

  void Connect(NodeId n, std::span<const uint32_t> producers) {
    const uint32_t self = ItemOf(n);
    for (const uint32_t p : producers) {
      if (Find(p) != self) items_[Find(p)].consumers.push_back(n);
    }
  }

  void AddExternal(NodeId n) {
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
  Index SpaceOf(NodeId n, std::vector<bool>& reduced) const {
    const Call call(graph_, graph_.nodes()[n]);
    if (aliases_.kind(n) != NodeKind::kReduction) {
      reduced.assign(call.result().sizes.size(), false);
      return call.result().sizes;
    }
    reduced.assign(call.type(0).sizes.size(), false);
    for (const int64_t d : call.node().def->reduce(call).dims) reduced[d] = true;
    return call.type(0).sizes;
  }

  void SetSpace(Item& item, Index space, std::vector<bool> reduced) {
    item.axes.clear();
    item.outer_axes.clear();
    item.outer_sizes.clear();
    for (size_t d = 0; d < space.size(); ++d) {
      const bool one = syms_.IsConst(space[d], 1);
      item.axes.push_back(one ? syms_.Const(0) : syms_.Axis(syms_.NextIndex(VarKind::kAxis), space[d]));
      if (reduced[d]) continue;
      item.outer_sizes.push_back(space[d]);
      item.outer_axes.push_back(item.axes[d]);
    }
    item.full = Linearize(syms_, item.axes, space);
    item.outer = Linearize(syms_, item.outer_axes, item.outer_sizes);
    item.num_full = NumElements(syms_, space);
    item.num_outer = NumElements(syms_, item.outer_sizes);
    item.group.space = std::move(space);
    item.group.reduced = std::move(reduced);
  }

  uint32_t NewGroup(NodeId n) {
    Item item;
    std::vector<bool> reduced;
    Index space = SpaceOf(n, reduced);
    SetSpace(item, std::move(space), std::move(reduced));
    for (const uint32_t p : Producers(n)) item.level = std::max(item.level, items_[p].level + 1);
    const bool reduction = aliases_.kind(n) == NodeKind::kReduction;
    placed_[n] = {.node = n, .full = !reduction, .phase = reduction ? 1u : 0u};
    item.group.nodes.push_back(placed_[n]);
    return item_of_[n] = NewItem(std::move(item));
  }

  // Joins the highest producer group that will have it, then merges the others into that.
  absl::Status Place(NodeId n) {
    std::vector<uint32_t> producers = Producers(n);
    std::vector<uint32_t> candidates = producers;
    std::sort(candidates.begin(), candidates.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(items_[b].level, a) < std::pair(items_[a].level, b);
    });
    bool joined = false;
    for (const uint32_t candidate : candidates) {
      const uint32_t item = Find(candidate);
      if (items_[item].external != kNoNode) continue;
      if (!joined) {
        absl::StatusOr<bool> ok = TryJoin(n, item, producers);
        if (!ok.ok()) return ok.status();
        joined = *ok;
      } else if (item != ItemOf(n)) {
        absl::Status status = TryMerge(n, item);
        if (!status.ok()) return status;
      }
    }
    if (!joined) NewGroup(n);
    Connect(n, producers);
    return absl::OkStatus();
  }

  // The level that `item` would need to stand after `others`; nothing if a consumer of it could then come first.
  std::optional<uint32_t> LevelAfter(uint32_t item, uint32_t least, uint32_t except) {
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

  absl::StatusOr<bool> TryJoin(NodeId n, uint32_t item, std::span<const uint32_t> producers) {
    if (items_[item].group.nodes.size() >= limits_.group_nodes) return false;
    uint32_t least = 0;
    for (const uint32_t p : producers) {
      if (Find(p) != item) least = std::max(least, items_[Find(p)].level + 1);
    }
    const std::optional<uint32_t> level = LevelAfter(item, least, kNoItem);
    if (!level) return false;
    if (aliases_.kind(n) == NodeKind::kReduction && !AdoptReduction(n, item)) return false;
    absl::StatusOr<std::optional<GroupNode>> at = Fit(n, item);
    if (!at.ok()) return at.status();
    if (!*at) return false;
    items_[item].level = *level;
    items_[item].group.nodes.push_back(**at);
    placed_[n] = **at;
    item_of_[n] = item;
    return true;
  }

  // Makes the group's space that of reduction `n`'s operand, if it may.
  bool AdoptReduction(NodeId n, uint32_t item) {
    std::vector<bool> reduced;
    Index space = SpaceOf(n, reduced);
    Item& it = items_[item];
    if (it.group.has_reduction()) return space == it.group.space && reduced == it.group.reduced;
    if (NumElements(syms_, space) != it.num_full) return false;
    SetSpace(it, std::move(space), std::move(reduced));
    return true;
  }

  bool InnermostReduced(const Item& item) const {
    for (size_t d = item.group.space.size(); d-- > 0;) {
      if (!syms_.IsConst(item.group.space[d], 1)) return item.group.reduced[d];
    }
    return true;
  }

  // Where `n` would stand in the group: nothing if an operand that the group computes is read at another position.
  absl::StatusOr<std::optional<GroupNode>> Fit(NodeId n, uint32_t item) {
    const Item& it = items_[item];
    const bool reduction = aliases_.kind(n) == NodeKind::kReduction;
    const Call call(graph_, graph_.nodes()[n]);
    const Index& sizes = reduction ? call.type(0).sizes : call.result().sizes;
    const Sym count = NumElements(syms_, sizes);
    GroupNode at{.node = n, .full = count == it.num_full, .phase = 0};
    if (!at.full && !(it.group.has_reduction() && count == it.num_outer)) return std::nullopt;
    const Index index = at.full ? Reindex(syms_, it.axes, it.group.space, sizes)
                                : Reindex(syms_, it.outer_axes, it.outer_sizes, sizes);
    absl::StatusOr<std::vector<OperandAccess>> accesses = OperandAccesses(graph_, call.node(), index);
    if (!accesses.ok()) return accesses.status();
    for (OperandAccess& access : *accesses) {
      const NodeId p = graph_.producer(aliases_.root(access.value));
      if (p == kNoNode || ItemOf(p) != item) continue;
      if (access.masked) return std::nullopt;
      ThroughViews(access);
      const GroupNode& producer = placed_[p];
      const Sym read = Linearize(syms_, access.index, graph_.type(access.value)->sizes);
      if (read != (producer.full ? it.full : it.outer)) return std::nullopt;
      if (producer.full && !at.full) return std::nullopt;
      at.phase = std::max(at.phase, producer.phase);
    }
    if (reduction) at = {.node = n, .full = false, .phase = at.phase + 1};
    if (at.phase >= limits_.phases) return std::nullopt;
    // A second pass over the space pays only where a pass is a row that is still in cache.
    if (at.full && at.phase > 0 && !InnermostReduced(it)) return std::nullopt;
    return at;
  }

  void ThroughViews(OperandAccess& access) const {
    while (aliases_.is_view(access.value)) {
      const NodeId p = graph_.producer(access.value);
      const Node& node = graph_.nodes()[p];
      const Call call(graph_, node);
      access.index = node.def->view(call, access.value - node.first_result, access.index);
      access.value = call.value(0);
    }
  }

  // Merges `other`, a producer of `n`, into the group that `n` has joined, if both iterate over one space and no path leads from one
  // to the other but through `n`.
  absl::Status TryMerge(NodeId n, uint32_t other) {
    const uint32_t self = ItemOf(n);
    if (items_[self].group.nodes.size() + items_[other].group.nodes.size() > limits_.group_nodes) return absl::OkStatus();
    if (items_[self].num_full != items_[other].num_full) return absl::OkStatus();
    const bool self_reduces = items_[self].group.has_reduction(), other_reduces = items_[other].group.has_reduction();
    if (other_reduces && self_reduces &&
        (items_[self].group.space != items_[other].group.space || items_[self].group.reduced != items_[other].group.reduced)) {
      return absl::OkStatus();
    }
    if (Touches(other, self, n) || Touches(self, other, n)) return absl::OkStatus();
    const bool other_lower = items_[other].level <= items_[self].level;
    const uint32_t lower = other_lower ? other : self, higher = other_lower ? self : other;
    const std::optional<uint32_t> level = LevelAfter(lower, items_[higher].level, higher);
    if (!level) return absl::OkStatus();
    return Merge(n, self, other, *level, other_reduces && !self_reduces);
  }

  // A node of `to` other than `except` reads a value of `from`.
  bool Touches(uint32_t from, uint32_t to, NodeId except) {
    if (items_[from].consumers.size() > limits_.consumers_looked_at) return true;
    for (const NodeId c : items_[from].consumers) {
      if (c != except && ItemOf(c) == to) return true;
    }
    return false;
  }

  // `n` is the last node of `self`. It must still fit once `other`'s values are computed beside it.
  absl::Status Merge(NodeId n, uint32_t self, uint32_t other, uint32_t level, bool take_space) {
    const Item saved_self = items_[self];
    const std::vector<GroupNode> other_nodes = items_[other].group.nodes;
    Item& it = items_[self];
    if (take_space) SetSpace(it, items_[other].group.space, items_[other].group.reduced);
    it.group.nodes.pop_back();
    it.group.nodes.insert(it.group.nodes.end(), other_nodes.begin(), other_nodes.end());
    std::sort(it.group.nodes.begin(), it.group.nodes.end(),
              [](const GroupNode& a, const GroupNode& b) { return a.node < b.node; });
    parent_[other] = self;
    absl::StatusOr<std::optional<GroupNode>> at = Fit(n, self);
    if (!at.ok() || !*at) {
      parent_[other] = other;
      items_[self] = saved_self;
      return at.status();
    }
    it.group.nodes.push_back(**at);
    placed_[n] = **at;
    it.level = level;
    it.consumers.insert(it.consumers.end(), items_[other].consumers.begin(), items_[other].consumers.end());
    items_[other] = Item();
    return absl::OkStatus();
  }

  // Outputs of the groups, and the steps in dependence order; among those that are ready, the one that the graph has first.
  absl::StatusOr<Fusion> Finish() {
    const std::vector<uint32_t> live = LiveItems();
    MarkReadOutside();
    Fusion fusion;
    std::vector<uint32_t> step_of(items_.size(), kNoItem), missing(items_.size(), 0);
    std::vector<std::vector<uint32_t>> successors(items_.size());
    Dependences(live, successors, missing);
    using Entry = std::pair<NodeId, uint32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
    for (const uint32_t i : live) {
      if (missing[i] == 0) ready.push({LastNode(i), i});
    }
    size_t emitted = 0;
    for (; !ready.empty(); ++emitted) {
      const uint32_t i = ready.top().second;
      ready.pop();
      Emit(i, fusion);
      for (const uint32_t s : successors[i]) {
        if (--missing[s] == 0) ready.push({LastNode(s), s});
      }
    }
    if (emitted != live.size()) return absl::InternalError("fusion made a cycle");
    return fusion;
  }

  std::vector<uint32_t> LiveItems() {
    std::vector<uint32_t> live;
    for (uint32_t i = 0; i < items_.size(); ++i) {
      if (Find(i) == i) live.push_back(i);
    }
    return live;
  }

  NodeId LastNode(uint32_t i) const {
    return items_[i].external != kNoNode ? items_[i].external : items_[i].group.nodes.back().node;
  }

  void MarkReadOutside() {
    for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
      const uint32_t self = ItemOf(n);
      if (self == kNoItem) continue;
      ForEachValue(std::span<const Arg>(graph_.nodes()[n].args), [&](ValueId v) {
        const ValueId root = aliases_.root(v);
        const NodeId p = graph_.producer(root);
        if (p != kNoNode && ItemOf(p) != kNoItem && ItemOf(p) != self) in_memory_[root] = true;
      });
    }
    for (const uint32_t i : LiveItems()) {
      for (const GroupNode& gn : items_[i].group.nodes) {
        const Node& node = graph_.nodes()[gn.node];
        for (uint32_t r = 0; r < node.num_results; ++r) {
          const ValueId v = node.first_result + r;
          if (graph_.type(v) != nullptr && in_memory_[v]) items_[i].group.outputs.push_back(v);
        }
      }
    }
  }

  // An external call that draws random numbers, or that has effects, comes after the one before it.
  bool Ordered(NodeId n) const {
    const Traits traits = TraitsOf(Call(graph_, graph_.nodes()[n]));
    return traits.random || traits.effect;
  }

  void Dependences(std::span<const uint32_t> live, std::vector<std::vector<uint32_t>>& successors,
                   std::vector<uint32_t>& missing) {
    for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
      const uint32_t self = ItemOf(n);
      if (self == kNoItem) continue;
      for (const uint32_t p : Producers(n)) {
        if (p != self) successors[p].push_back(self);
      }
    }
    uint32_t previous = kNoItem;
    for (const uint32_t i : live) {
      if (items_[i].external == kNoNode || !Ordered(items_[i].external)) continue;
      if (previous != kNoItem) successors[previous].push_back(i);
      previous = i;
    }
    for (const uint32_t i : live) {
      std::sort(successors[i].begin(), successors[i].end());
      successors[i].erase(std::unique(successors[i].begin(), successors[i].end()), successors[i].end());
      for (const uint32_t s : successors[i]) ++missing[s];
    }
  }

  void Emit(uint32_t i, Fusion& fusion) {
    if (items_[i].external != kNoNode) {
      fusion.order.push_back({FusedStep::Kind::kExternal, items_[i].external});
    } else if (!items_[i].group.outputs.empty()) {
      fusion.order.push_back({FusedStep::Kind::kGroup, static_cast<uint32_t>(fusion.groups.size())});
      fusion.groups.push_back(std::move(items_[i].group));
    }
  }

  const Graph& graph_;
  SymContext& syms_;
  const Aliases& aliases_;
  const FusionLimits& limits_;
  std::vector<Item> items_;
  std::vector<uint32_t> parent_;     // union-find over items
  std::vector<uint32_t> item_of_;    // per node
  std::vector<GroupNode> placed_;    // per node
  std::vector<bool> in_memory_;      // per value
  uint32_t last_ordered_ = kNoItem;  // the latest external call whose order is fixed
};

}  // namespace

absl::StatusOr<Fusion> Fuse(const Graph& graph, const Aliases& aliases, const FusionLimits& limits) {
  return Fuser(graph, aliases, limits).Run();
}

}  // namespace kiln
