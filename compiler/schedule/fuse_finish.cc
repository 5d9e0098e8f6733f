// What groups store, and what steps depend on.
#include <algorithm>
#include <utility>

#include "compiler/schedule/fuser.h"

namespace kiln {

NodeId Fuser::LastNode(uint32_t i) const {
  if (items_[i].external != kNoNode) return items_[i].external;
  NodeId last = items_[i].nodes.back().node;
  for (const Part& part : items_[i].bundled) last = std::max(last, part.nodes.back().node);
  return last;
}

absl::StatusOr<Fusion> Fuser::Finish() {
  absl::StatusOr<std::vector<uint32_t>> order = Order();
  if (!order.ok()) return order.status();
  Fusion fusion;
  for (const uint32_t i : *order) Emit(i, fusion);
  return fusion;
}

void Fuser::MarkReadOutside() {
  for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
    const uint32_t self = ItemOf(n);
    if (self == kNoItem) continue;
    ForEachRoot(n, [&](ValueId root) {
      const NodeId p = graph_.producer(root);
      if (p != kNoNode && ItemOf(p) != kNoItem && ItemOf(p) != self) in_memory_[root] = true;
    });
  }
}

void Fuser::Dependences(std::span<const uint32_t> live, std::vector<std::vector<uint32_t>>& successors,
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

void Fuser::Emit(uint32_t i, Fusion& fusion) {
  Item& item = items_[i];
  if (item.external != kNoNode) {
    fusion.order.push_back({FusedStep::Kind::kExternal, item.external});
    return;
  }
  FusedStep step{FusedStep::Kind::kGroup, static_cast<uint32_t>(fusion.groups.size()), 0};
  std::vector<Part> parts = std::move(item.bundled);
  parts.insert(parts.begin(), std::move(item));
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.nodes.back().node < b.nodes.back().node; });
  for (Part& part : parts) {
    Group group = Finished(std::move(part));
    if (group.outputs.empty()) continue;
    fusion.groups.push_back(std::move(group));
    ++step.count;
  }
  if (step.count > 0) fusion.order.push_back(step);
}

Group Fuser::Finished(Part part) const {
  const SpaceShape& shape = part.space.shape();
  const DimMask none(shape.sizes.size(), false);
  Group group{.space = shape.sizes,
              .reduced = shape.reduced.value_or(none),
              .sunk = shape.sunk.value_or(none),
              .sinks_outer = shape.sinks_outer,
              .ordered = aliases_.kind(part.nodes[0].node) == NodeKind::kOrdered};
  for (const GroupNode& at : part.nodes) {
    const Node& node = graph_.nodes()[at.node];
    for (uint32_t r = 0; r < node.num_results; ++r) {
      const ValueId v = node.first_result + r;
      if (graph_.type(v) != nullptr && in_memory_[v]) group.outputs.push_back(v);
    }
  }
  group.nodes = std::move(part.nodes);
  return group;
}

}  // namespace kiln
