// Writes one group into a kernel.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/loop/builder.h"
#include "compiler/lower/evaluator.h"
#include "compiler/lower/nest.h"
#include "compiler/ops/op_def.h"

namespace kiln {

// Each object writes one kernel, once.
class GroupLowering {
 public:
  enum class Stage : uint8_t {
    kProbe,   // straight-line code over free axes, one a dim of the space: every access is affine in those where it can
              // be
    kMain,    // the loops that the schedule asks for
    kFinish,  // folds the partial results of the main kernel's sinks
  };
  // All outlive this. `schedule` is not looked at by a probe.
  GroupLowering(const Graph& graph, const Aliases& aliases, const Group& group, const Schedule& schedule, Stage stage);

  // The kernel, in a context of its own.
  absl::StatusOr<LoweredKernel> Lower();
  absl::StatusOr<Probe> Run();

  // A finishing kernel goes by what the main one has left.
  void After(const GroupLowering& main);
  // For a main kernel: what goes through scratch. It outlives this, and came before it.
  void UseProbe(const Probe& probe) { probe_ = &probe; }
  void UseReuse(std::span<const Reuse> reuse);
  // After the main kernel: what it leaves, and whether that still has to be folded.
  const std::vector<LoweredGroup::Partial>& partials() const { return partials_; }
  bool finished() const { return sinks_.empty() || finished_; }

 private:
  using Values = std::vector<loop::ValueId>;

  struct Fold {
    NodeId node = kNoNode;
    ReduceSpec spec;
    Values init = {};                           // made where all its uses see it
    std::vector<loop::BufferId> partials = {};  // of a sink, one a tuple element
    std::vector<loop::BufferId> own = {};       // where it is accumulated, if not there
  };

  bool probing() const { return stage_ == Stage::kProbe; }
  bool IsReduction(NodeId n) const { return aliases_.kind(n) == NodeKind::kReduction; }
  bool IsOutput(ValueId v) const;
  bool HasOutput(NodeId n) const;
  bool OutgrowsCaches(ValueId v) const;
  absl::Status Finish();
  void ReplaceNames(loop::Stmt& stmt);

  // --- group_loops.cc ---
  Sym Extent(std::span<const int> dims);
  Sym NumPoints(const std::vector<bool>& dims);
  Sym Position(const std::vector<bool>& dims);
  void SetIndex(std::span<const int> dims, Sym index);
  size_t NumOuter() const { return static_cast<size_t>(schedule_.num_outer); }
  bool FoldsRows() const;
  bool VectorIsOuter() const;
  Sym OpenOuter();
  loop::AxisKind VectorKind() const;
  Sym Open(loop::AxisKind kind, Sym extent, uint32_t width);
  void CloseLoops(int down_to = 0);
  void OpenInner(std::span<const std::vector<int>> dims);
  Sym Grain();

  // --- group_rows.cc ---
  struct KeptRow {
    uint32_t from = 0;                         // the loop that computes it
    std::vector<uint32_t> loops = {};          // those that read it
    std::vector<loop::BufferId> scratch = {};  // one a result
  };
  void FindCostly();
  void FindKeptRows();
  std::vector<NodeId> NeededIn(uint32_t phase) const;
  bool KeepRow(NodeId n, uint32_t from, uint32_t phase, int64_t length, int64_t& bytes);
  template <typename F>
  void ForEachKept(F&& f);
  void KeepLoads(int64_t length, int64_t& bytes);
  int64_t RowTraffic(int64_t length) const;
  void LoadRows(uint32_t phase);
  void LoadReused(uint32_t phase);
  void StoreRows(uint32_t phase);
  void PrefetchNextRow(uint32_t phase);

  // --- group_tiles.cc ---
  Sym OpenTiles();
  std::pair<Sym, Sym> OpenTile(Sym outer, Sym inner);
  void CopyTiles(Sym base_along, Sym length_along, Sym base_vector, Sym length_vector);
  Sym AtCurrentPoint(Sym index);
  bool IsStaged(const MemoryAccess& access) const;
  void PrefetchNextTile(const MemoryAccess& access);
  void PrefetchAt(const MemoryAccess& access, int dim, int64_t steps);
  loop::BufferId AddScratch(DType dtype, int64_t elements, bool own = false);

  // --- group_phases.cc ---
  Index Here(Place place, std::span<const Sym> sizes);
  void RunPhases();
  void OuterNodes(uint32_t phase);
  void StoreOutputs(const GroupNode& at, bool compute);
  void Loop(uint32_t phase);
  void PlainLoop(uint32_t phase, const std::vector<GroupNode>& stores, std::span<const Fold> sinks);
  void FoldLoop(uint32_t phase, const std::vector<GroupNode>& stores, std::span<const Fold> folds,
                std::span<const Fold> sinks);
  Fold MakeFold(NodeId n);
  static loop::Builder::Combine CombineAll(std::span<const Fold> folds);
  Values Lift(const Fold& fold, Place place);
  Values FoldDims(size_t i, std::span<const loop::ValueId> init, const loop::Builder::Combine& combine,
                  const std::function<Values()>& body);
  void Results(const Fold& fold, std::span<const loop::ValueId> totals, Place place);

  // --- group_ordered.cc ---
  void RunOrdered();
  void FillResults(NodeId n, const OrderSpec& spec);

  // --- group_sinks.cc ---
  void FindSinks();
  std::vector<bool> SinkDims() const;
  std::vector<Fold> SinksOf(uint32_t phase) const;
  std::span<const std::vector<int>> KeptDims() const;
  Sym PartialPosition(Sym chunk);
  std::pair<loop::BufferId, Sym> Accumulator(const Fold& sink, size_t k);
  void StoreOwn();
  void CountChunks();
  void MakeInits();
  void AddPartials(loop::Access access);
  Sym OpenChunks();
  void InitPartials();
  Sym ChunkExtent(Sym extent);
  void Sink(const Fold& sink, Place operand);
  void StorePartials(std::span<const Fold> sinks, std::span<const loop::ValueId> totals);
  void FinishSinks();
  Values FoldPartials();
  Values LoadPartials(std::span<const Fold> folds, Sym chunk, loop::ValueId mask);
  Sym FinishInGroups();

  const Graph& graph_;
  SymContext& syms_;
  const Aliases& aliases_;
  const Group& group_;
  const Schedule& schedule_;
  const Stage stage_;
  absl::flat_hash_set<NodeId> local_;
  loop::Kernel kernel_;
  std::unique_ptr<loop::Builder> b_;
  std::unique_ptr<Evaluator> e_;
  Sym vector_axis_;                      // of columns: within the block
  std::vector<loop::BufferId> grouped_;  // shared: what groups of chunks come to, of each point of the block
  Index at_;                             // index of each dim of the space at the current point
  absl::flat_hash_map<Var, Sym> named_;  // axes that stand for expressions while the kernel is written
  int open_ = 0;

  absl::flat_hash_set<NodeId> costly_;  // full nodes that evaluate a function of mathlib
  absl::flat_hash_map<NodeId, KeptRow> kept_rows_;
  struct KeptLoad {
    MemoryAccess load;  // in the probe's axes
    uint32_t from = 0;
    std::vector<uint32_t> loops = {};
    loop::BufferId scratch = loop::kNone;
  };
  std::vector<KeptLoad> kept_loads_;
  const Probe* probe_ = nullptr;
  std::span<const Reuse> reuse_;
  std::vector<std::vector<MemoryAccess>> loads_;  // of a probe
  struct Staged {
    MemoryAccess load;  // in the probe's axes
    loop::BufferId scratch = loop::kNone;
  };
  std::vector<Staged> staged_;

  std::vector<bool> kept_;                        // dims that are not sunk
  std::vector<std::pair<Fold, uint32_t>> sinks_;  // with the phase whose loop folds each
  Sym chunks_, chunk_length_;                     // of the sunk loop dim
  Sym chunk_;                                     // the current one
  bool finished_ = false;
  absl::flat_hash_map<NodeId, Values> probed_;  // a sink's lifted tuple
  std::vector<LoweredGroup::Partial> partials_;
};

}  // namespace kiln
