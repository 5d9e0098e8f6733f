// The state of fusion: items that grow. See fuse.h for what it promises.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/lower/access.h"
#include "compiler/lower/alias.h"
#include "compiler/ops/op_def.h"
#include "compiler/schedule/fuse.h"
#include "compiler/schedule/space.h"

namespace kiln {

inline constexpr uint32_t kNoItem = 0xffffffff;

class Fuser {
 public:
  Fuser(const Graph& graph, const Aliases& aliases, const FusionLimits& limits);
  absl::StatusOr<Fusion> Run();

 private:
  struct Part {
    std::vector<GroupNode> nodes;
    GroupSpace space;
  };
  // A group while it grows, or an external call.
  struct Item : Part {
    NodeId external = kNoNode;
    uint32_t level = 0;
    std::vector<NodeId> consumers;  // nodes outside that read a value of this item
    std::vector<Part> bundled;      // groups launched together with it
  };

  uint32_t Find(uint32_t item);
  uint32_t ItemOf(NodeId n) { return item_of_[n] == kNoItem ? kNoItem : Find(item_of_[n]); }
  std::vector<uint32_t> LiveItems();
  uint32_t NewItem(Item item);
  NodeId LastNode(uint32_t item) const;

  // --- fuse.cc: placing nodes one by one ---
  void FindNeededInMemory();
  bool IsNeededInMemory(NodeId n) const;
  std::vector<uint32_t> Producers(NodeId n);
  void ForEachRoot(NodeId n, absl::FunctionRef<void(ValueId)> f) const;
  void Connect(NodeId n, std::span<const uint32_t> producers);
  void AddExternal(NodeId n);
  bool Ordered(NodeId n) const;
  SpaceShape ShapeOf(NodeId n) const;
  void NewGroup(NodeId n);
  bool IsOpen(const Item& item) const;
  absl::Status PlaceNode(NodeId n);
  std::optional<uint32_t> LevelAfter(uint32_t item, uint32_t least, uint32_t except);
  absl::StatusOr<bool> TryJoin(NodeId n, uint32_t item, std::span<const uint32_t> producers);
  std::optional<CombinedSpace> WithReduction(const GroupSpace& space, const SpaceShape& reduction);
  absl::StatusOr<std::optional<GroupNode>> Fit(NodeId n, uint32_t item, const GroupSpace& space);
  absl::StatusOr<std::optional<GroupNode>> FitAt(NodeId n, uint32_t item, const GroupSpace& space, Place place);
  bool IsOfRow(const GroupSpace& space, const OperandAccess& access);
  void Add(uint32_t item, const GroupNode& at);
  void SinkReductions(uint32_t item);

  // --- fuse_merge.cc: two groups into one ---
  absl::Status TryMergeProducer(NodeId n, uint32_t other);
  bool MoveOutside(uint32_t self, uint32_t other);
  bool SinkOutside(uint32_t self, uint32_t other);
  bool Touches(uint32_t from, uint32_t to, NodeId except);
  void MergeInto(uint32_t self, uint32_t other, const CombinedSpace& combined, uint32_t level);
  void MergeSiblings();
  void TryMergeSiblings(uint32_t self, uint32_t other);
  std::optional<uint32_t> MergedLevel(uint32_t a, uint32_t b);
  void BundleSmall();
  void TryBundle(uint32_t self, uint32_t other);
  static size_t NumNodes(const Item& item);
  Sym NumPoints(const Part& part);
  bool AreNear(uint32_t a, uint32_t b) const;
  std::vector<ValueId> WholesRead(uint32_t item);

  // --- fuse_order.cc: the order of steps ---
  struct Steps {
    const std::vector<uint32_t>& live;
    std::vector<std::vector<uint32_t>> successors;  // per item
    std::vector<uint32_t> missing;                  // per item: steps that come before it
  };
  struct StepMemory {
    std::vector<int64_t> bytes;               // per root
    std::vector<uint32_t> readers;            // per root: items
    std::vector<int64_t> allocated;           // per item
    std::vector<std::vector<ValueId>> reads;  // per item: roots that can be freed, distinct
  };
  class Alive;
  absl::StatusOr<std::vector<uint32_t>> Order();
  std::vector<uint32_t> InOrder(const Steps& steps, const StepMemory* memory) const;
  std::vector<uint32_t> Gathered(const std::vector<uint32_t>& order, const Steps& steps, const StepMemory& memory,
                                 int64_t peak) const;
  std::optional<StepMemory> MemoryOf(const std::vector<uint32_t>& live);
  static int64_t Peak(const std::vector<uint32_t>& order, const StepMemory& memory);

  // --- fuse_finish.cc: what is stored, and what steps depend on ---
  absl::StatusOr<Fusion> Finish();
  void MarkReadOutside();
  void Dependences(std::span<const uint32_t> live, std::vector<std::vector<uint32_t>>& successors,
                   std::vector<uint32_t>& missing);
  void Emit(uint32_t item, Fusion& fusion);
  Group Finished(Part part) const;

  const Graph& graph_;
  SymContext& syms_;
  const Aliases& aliases_;
  const FusionLimits& limits_;
  std::vector<Item> items_;
  std::vector<uint32_t> parent_;   // union-find over items
  std::vector<uint32_t> item_of_;  // per node
  std::vector<GroupNode> placed_;  // per node
  std::vector<bool> in_memory_;    // per value: something outside every kernel reads it, in the end: another kernel too
  uint32_t last_ordered_ = kNoItem;  // the latest external call whose order is fixed
};

}  // namespace kiln
