// Two groups become one: a node's producers, and groups that read the same.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "compiler/schedule/fuser.h"
#include "compiler/schedule/profit.h"

namespace kiln {
namespace {

// Readers of a value, or small groups over as many points, that are looked at for each group.
constexpr size_t kSiblingsLookedAt = 8;
// Kernels that stand further apart stay so: in one, what they read and write would live longer.
constexpr uint32_t kNearLevels = 4;
// Points up to which one loop does the work of groups that read nothing in common. A longer one would go through memory
// at many places at once, page by page; such groups are bundled, side by side.
constexpr int64_t kMaxMixed = 4096;
constexpr size_t kMaxBundled = 64;
constexpr size_t kMaxBundledNodes = 512;

}  // namespace

// Merges `other`, a producer of `n`, into the group that `n` has joined, if no path leads from one to the other but
// through `n`.
absl::Status Fuser::TryMergeProducer(NodeId n, uint32_t other) {
  const uint32_t self = ItemOf(n);
  if (items_[self].nodes.size() + items_[other].nodes.size() > limits_.group_nodes) return absl::OkStatus();
  if (Touches(other, self, n) || Touches(self, other, n)) return absl::OkStatus();
  const std::optional<uint32_t> level = MergedLevel(self, other);
  if (!level) return absl::OkStatus();
  const Item saved_self = items_[self], saved_other = items_[other];
  items_[self].nodes.pop_back();
  if (const auto combined = Combine(syms_, items_[self].space.shape(), items_[other].space.shape())) {
    MergeInto(self, other, *combined, *level);
  } else if (MoveOutside(self, other)) {
    MergeInto(self, other, {.shape = items_[self].space.shape()}, *level);
  } else {
    items_[self] = saved_self;
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<GroupNode>> at = Fit(n, self, items_[self].space);
  if (at.ok() && *at) {
    Add(self, **at);
    return absl::OkStatus();
  }
  parent_[other] = other;
  items_[self] = saved_self;
  items_[other] = saved_other;
  for (const Item* item : {&saved_self, &saved_other}) {
    for (const GroupNode& node : item->nodes) placed_[node.node] = node;
  }
  return at.status();
}

// The nodes of `other` are to be outer or kept nodes of `self`'s space, if they are as many points.
bool Fuser::MoveOutside(uint32_t self, uint32_t other) {
  const SpaceShape& shape = items_[other].space.shape();
  if (shape.sunk) return false;
  if (shape.reduced) return SinkOutside(self, other);
  const GroupSpace& space = items_[self].space;
  for (const Place place : {Place::kOuter, Place::kKept}) {
    if (!space.has(place) || space.part(place).count != items_[other].space.part(Place::kFull).count) continue;
    for (GroupNode& at : items_[other].nodes) placed_[at.node] = at = {.node = at.node, .place = place, .phase = 0};
    // Full nodes may read them.
    items_[self].space.ForbidSinking();
    return true;
  }
  return false;
}

// The nodes of `other`, as many points as `self` has rows, are to be outer ones; its reductions, of all those points,
// sinks.
bool Fuser::SinkOutside(uint32_t self, uint32_t other) {
  const GroupSpace &space = items_[self].space, &theirs = items_[other].space;
  if (!FoldsAll(syms_, theirs.shape()) || !theirs.shape().can_sink) return false;
  if (!space.has(Place::kOuter) || space.part(Place::kOuter).count != theirs.part(Place::kFull).count) return false;
  const std::optional<SpaceShape> shape = WithOuterSinks(syms_, space.shape());
  if (!shape) return false;
  items_[self].space = GroupSpace(syms_, *shape);
  SinkReductions(other);
  for (GroupNode& at : items_[other].nodes) {
    if (at.place == Place::kFull) placed_[at.node] = at = {.node = at.node, .place = Place::kOuter, .phase = 0};
  }
  return true;
}

std::optional<uint32_t> Fuser::MergedLevel(uint32_t a, uint32_t b) {
  if (items_[b].level < items_[a].level) std::swap(a, b);
  return LevelAfter(a, items_[b].level, b);
}

// A node of `to` other than `except` reads a value of `from`.
bool Fuser::Touches(uint32_t from, uint32_t to, NodeId except) {
  if (items_[from].consumers.size() > limits_.consumers_looked_at) return true;
  for (const NodeId c : items_[from].consumers) {
    if (c != except && ItemOf(c) == to) return true;
  }
  return false;
}

void Fuser::MergeInto(uint32_t self, uint32_t other, const CombinedSpace& combined, uint32_t level) {
  if (combined.sink_first) SinkReductions(self);
  if (combined.sink_second) SinkReductions(other);
  Item& it = items_[self];
  Item& from = items_[other];
  it.space = GroupSpace(syms_, combined.shape);
  it.nodes.insert(it.nodes.end(), from.nodes.begin(), from.nodes.end());
  std::sort(it.nodes.begin(), it.nodes.end(), [](const GroupNode& a, const GroupNode& b) { return a.node < b.node; });
  it.consumers.insert(it.consumers.end(), from.consumers.begin(), from.consumers.end());
  it.level = level;
  parent_[other] = self;
  from = Item();
}

// Groups that don't depend on each other and go over the same memory, or that are small.
void Fuser::MergeSiblings() {
  std::vector<std::vector<uint32_t>> readers(graph_.num_values());
  absl::flat_hash_map<Sym, std::vector<uint32_t>> alike;  // by number of points
  for (const uint32_t i : LiveItems()) {
    if (!IsOpen(items_[i])) continue;
    std::vector<std::vector<uint32_t>*> lists;
    for (const ValueId root : WholesRead(i)) lists.push_back(&readers[root]);
    lists.push_back(&alike[items_[i].space.part(Place::kFull).count]);
    for (std::vector<uint32_t>* list : lists) {
      const size_t end = list->size(), begin = end - std::min(end, kSiblingsLookedAt);
      for (size_t k = end; k-- > begin;) TryMergeSiblings(i, Find((*list)[k]));
      list->push_back(i);
    }
  }
}

void Fuser::TryMergeSiblings(uint32_t self, uint32_t other) {
  if (self == other || items_[self].nodes.size() + items_[other].nodes.size() > limits_.group_nodes) return;
  if (!AreNear(self, other) || Touches(other, self, kNoNode) || Touches(self, other, kNoNode)) return;
  const SpaceShape &shape = items_[self].space.shape(), &their_shape = items_[other].space.shape();
  if (!AreCutAlike(syms_, shape.sizes, their_shape.sizes)) return;
  const std::optional<CombinedSpace> combined = Combine(syms_, shape, their_shape);
  if (!combined) return;
  const std::vector<ValueId> ours = WholesRead(self), theirs = WholesRead(other);
  const bool share = std::find_first_of(ours.begin(), ours.end(), theirs.begin(), theirs.end()) != ours.end();
  if (!share && syms_.AsConst(NumPoints(items_[self])).value_or(kMaxMixed + 1) > kMaxMixed) return;
  if (const std::optional<uint32_t> level = MergedLevel(self, other)) MergeInto(self, other, *combined, *level);
}

bool Fuser::AreNear(uint32_t a, uint32_t b) const {
  const auto [low, high] = std::minmax(items_[a].level, items_[b].level);
  return high - low <= kNearLevels;
}

// Small groups of any spaces that don't read each other, launched together side by side.
void Fuser::BundleSmall() {
  std::vector<uint32_t> live = LiveItems(), small;
  std::sort(live.begin(), live.end(),
            [&](uint32_t a, uint32_t b) { return std::pair(items_[a].level, a) < std::pair(items_[b].level, b); });
  for (const uint32_t i : live) {
    if (items_[i].external != kNoNode || !IsSmall(syms_, NumPoints(items_[i]))) continue;
    const size_t end = small.size(), begin = end - std::min(end, kSiblingsLookedAt);
    for (size_t k = end; k-- > begin;) TryBundle(i, Find(small[k]));
    small.push_back(i);
  }
}

size_t Fuser::NumNodes(const Item& item) {
  size_t count = item.nodes.size();
  for (const Part& part : item.bundled) count += part.nodes.size();
  return count;
}

// Points of the space, and elements that a scatter fills.
Sym Fuser::NumPoints(const Part& part) {
  const Sym points = part.space.part(Place::kFull).count;
  const Call call(graph_, graph_.nodes()[part.nodes[0].node]);
  if (aliases_.kind(part.nodes[0].node) != NodeKind::kOrdered) return points;
  return syms_.Max(points, NumElements(syms_, call.result().sizes));
}

void Fuser::TryBundle(uint32_t self, uint32_t other) {
  if (self == other || items_[self].bundled.size() + items_[other].bundled.size() + 2 > kMaxBundled) return;
  Item& it = items_[self];
  Item& from = items_[other];
  if (NumNodes(it) + NumNodes(from) > kMaxBundledNodes) return;
  if (!AreNear(self, other) || Touches(other, self, kNoNode) || Touches(self, other, kNoNode)) return;
  const std::optional<uint32_t> level = MergedLevel(self, other);
  if (!level) return;
  it.bundled.insert(it.bundled.end(), from.bundled.begin(), from.bundled.end());
  it.bundled.push_back(from);
  it.consumers.insert(it.consumers.end(), from.consumers.begin(), from.consumers.end());
  it.level = *level;
  parent_[other] = self;
  from = Item();
}

// What the group reads from memory that has as many elements as it has points, distinct, in order.
std::vector<ValueId> Fuser::WholesRead(uint32_t item) {
  std::vector<ValueId> roots;
  const Sym points = items_[item].space.part(Place::kFull).count;
  for (const GroupNode& at : items_[item].nodes) {
    ForEachRoot(at.node, [&](ValueId root) {
      const NodeId p = graph_.producer(root);
      if (p != kNoNode && ItemOf(p) == item) return;
      if (NumElements(syms_, graph_.type(root)->sizes) != points) return;
      if (std::find(roots.begin(), roots.end(), root) == roots.end()) roots.push_back(root);
    });
  }
  return roots;
}

}  // namespace kiln
