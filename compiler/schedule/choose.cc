#include "compiler/schedule/choose.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "compiler/codegen/cpu/machine.h"
#include "compiler/codegen/cuda/machine.h"
#include "compiler/lower/index.h"
#include "compiler/lower/inline.h"

namespace kiln {
namespace {

// A block of the vector axis fits the first-level cache with a few operands beside it.
constexpr int64_t kBlock = 4096;
// Rows up to this long are not cut into blocks.
constexpr int64_t kWholeRow = 16384;
// Large reductions of up to so many columns are cut into chunks of rows: a chunk's accumulators stay in the first-level
// cache.
constexpr int64_t kMaxColumns = 4096;
// A cache line.
constexpr int64_t kLeastTiled = 16;
// What a size is taken for where strides are compared: longer than most numbers that stand in graphs.
constexpr int64_t kNominalSize = 4096;

// Of a GPU: bytes that a thread accesses at once; threads of a block where nothing asks for more or fewer, as many as
// suffice to keep memory busy, with several blocks a multiprocessor; vectors of a row for each thread, in registers.
constexpr int64_t kAccessBytes = 16;
constexpr int64_t kThreads = 256;
constexpr int64_t kRowVectors = 4;
constexpr int64_t kSunkRowVectors = 2;      // where sinks take registers too
constexpr int64_t kRowRegisterBytes = 256;  // of a thread
constexpr int64_t kMaxRounds = 8;           // over a row in registers
// Of a block that goes down columns: rows on their way at a time, operations that this may take (a function counts for
// several), and rows that it goes over at least.
constexpr int64_t kColumnThreads = 128;
constexpr int64_t kColumnAccumulators = 8;
constexpr int64_t kColumnOperations = 64;
constexpr int64_t kFunctionOperations = 16;
constexpr int64_t kColumnRows = 16;
constexpr int64_t kTile = 64;
// A few for each place that a device has for one; and threads that keep its memory busy.
constexpr int64_t kMaxBlocks = 1024;
constexpr int64_t kBusyThreads = 1 << 16;
// Points of a chunk whose rows are folded along outer dims.
constexpr int64_t kSunkPoints = 1024;

class Chooser {
 public:
  Chooser(const Graph& graph, const Group& group, const Probe& probe, const ScheduleTarget& target)
      : graph_(graph), syms_(graph.syms()), group_(group), probe_(probe), target_(target) {}

  Schedule Choose() {
    Schedule s;
    const std::vector<int> order = Order();
    if (Any(group_.sunk)) {
      SinkOutside(s, order, group_.sunk);
      return s;
    }
    std::vector<int> outer, reduced;
    for (const int d : order) (group_.reduced[d] ? reduced : outer).push_back(d);
    const bool columns = !reduced.empty() && !outer.empty() && !group_.reduced[order.back()];
    const bool folds_columns = columns && CanSink() && IsLarge();
    if (folds_columns && !target_.on_gpu() && Kept(group_.reduced) <= kMaxColumns) {
      SinkOutside(s, order, group_.reduced);
      return s;
    }
    s.columns = columns || (group_.ordered && reduced.empty() && !outer.empty());
    if (group_.ordered) std::sort(reduced.begin(), reduced.end());
    for (const auto* part : {&outer, &reduced}) {
      for (std::vector<int>& dims : Merge(*part)) s.dims.push_back(std::move(dims));
      if (part == &outer) s.num_outer = static_cast<int>(s.dims.size());
    }
    if (target_.on_gpu()) {
      if (folds_columns && s.dims.size() > static_cast<size_t>(s.num_outer)) {
        // One loop down all rows, for chunks of any length.
        s.dims.resize(static_cast<size_t>(s.num_outer));
        s.dims.push_back(reduced);
      }
      Threads(s, order, reduced.empty());
      if (folds_columns || (!s.columns && Splits(reduced))) s.sink = Schedule::Sink::kInside;
      return s;
    }
    s.width = group_.ordered && !s.columns ? 1 : Width(s);
    if (!reduced.empty() && !s.columns && !group_.ordered) s.accumulators = 4;
    s.block = Block(s);
    if (reduced.empty()) Tile(s);
    if (!s.columns && Splits(reduced)) s.sink = Schedule::Sink::kInside;
    return s;
  }

 private:
  static bool Any(const std::vector<bool>& mask) { return std::find(mask.begin(), mask.end(), true) != mask.end(); }

  // There are reductions, and nothing at full points waits for them.
  bool CanSink() const {
    if (group_.ordered) return false;
    for (const GroupNode& at : group_.nodes) {
      if (at.phase > 1 || (at.place == Place::kFull && at.phase > 0)) return false;
    }
    return true;
  }

  // Rows so few and so long that each is cut into chunks.
  bool Splits(const std::vector<int>& reduced) {
    return !reduced.empty() && CanSink() && IsLarge() && Kept(group_.reduced) <= kFewRows;
  }

  // Not known to be too small to be cut into chunks.
  bool IsLarge() {
    const std::optional<int64_t> points = syms_.AsConst(NumElements(syms_, group_.space));
    return !points || *points > kLongRow;
  }

  // Points of the dims that `folded` leaves; very many where that is not known.
  int64_t Kept(const std::vector<bool>& folded) {
    Sym count = syms_.Const(1);
    for (size_t d = 0; d < folded.size(); ++d) {
      if (!folded[d]) count = syms_.Mul(count, group_.space[d]);
    }
    return syms_.AsConst(count).value_or(std::numeric_limits<int64_t>::max());
  }

  // One loop over the sunk dims (those that are not reduced where sinks fold outer values), in it those over the
  // others.
  void SinkOutside(Schedule& s, const std::vector<int>& order, const std::vector<bool>& sunk) {
    std::vector<int> outer, kept;
    for (const int d : order) ((group_.sinks_outer ? !group_.reduced[d] : sunk[d]) ? outer : kept).push_back(d);
    s.sink = Schedule::Sink::kOutside;
    s.dims = Merge(kept);
    s.width = Width(s);
    if (Any(group_.reduced) && sunk != group_.reduced) s.accumulators = 4;
    if (target_.on_gpu()) {
      Threads(s, order, /*pointwise=*/false);
      s.accumulators = 1;
    }
    s.dims.insert(s.dims.begin(), std::move(outer));
    s.num_outer = 1;
  }

  // Threads go along the innermost loop; where nothing is reduced that is all dims in one, in pieces of one vector a
  // thread.
  void Threads(Schedule& s, const std::vector<int>& order, bool pointwise) {
    s.scratch_bytes = target_.shared_bytes;
    s.max_chunks = kMaxBlocks;
    if (s.columns && !group_.ordered) {
      s.chunk_points = kColumnRows;
      s.accumulators = ColumnAccumulators();
    }
    const std::vector<int> along = s.dims.empty() ? std::vector<int>()
                                   : s.columns    ? s.dims[s.num_outer - 1]
                                                  : s.dims.back();
    const Sym run = Extent(along);
    const bool one_run = pointwise && s.dims.size() <= 1;
    s.lanes = static_cast<uint32_t>(Lanes(along, one_run));
    int64_t threads = kThreads;
    if (pointwise) Tile(s);
    if (group_.ordered && !s.columns) {
      // What is carried along the row is one thread's.
      threads = s.lanes = 1;
    } else if (s.tiled >= 0) {
      s.tile = kTile;
    } else if (pointwise && !order.empty()) {
      s.dims = {order};
      s.num_outer = 1;
    } else if (const std::optional<int64_t> length = syms_.AsConst(run)) {
      const int64_t vectors = (*length + s.lanes - 1) / s.lanes;
      threads = s.columns ? ColumnThreads(vectors)
                          : std::clamp<int64_t>(vectors / (Any(group_.sunk) ? kSunkRowVectors : kRowVectors), 32,
                                                loop::kMaxThreads);
    }
    if (!s.columns) threads = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(threads)));
    LimitChunks(s, run, threads);
    s.width = static_cast<uint32_t>(threads) * s.lanes;
    if (const std::optional<int64_t> length = syms_.AsConst(run); !pointwise && !s.columns && length) {
      const int64_t rounds = (*length + s.width - 1) / s.width;
      s.registers = !group_.ordered && rounds <= kMaxRounds && s.dims.size() == static_cast<size_t>(s.num_outer) + 1;
      if (s.registers) s.scratch_bytes = threads * kRowRegisterBytes;
    }
    if (VectorIsOuter(s) && s.tiled < 0) s.block = s.width;
  }

  // As many chunks as keep a device busy with blocks of so many threads.
  void LimitChunks(Schedule& s, Sym run, int64_t threads) {
    if (Any(group_.sunk)) {
      s.chunk_points = kSunkPoints;
      s.max_chunks = std::clamp(kBusyThreads / threads, kMaxBlocks / 2, kMaxBlocks);
    } else if (s.columns) {
      const int64_t beside = (syms_.AsConst(run).value_or(1) + threads * s.lanes - 1) / (threads * s.lanes);
      s.max_chunks = std::clamp<int64_t>(kMaxBlocks / std::max<int64_t>(beside, 1), 1, kMaxBlocks / 2);
    }
  }

  // Whole warps, of which the last block has as many as the others where that can be.
  static int64_t ColumnThreads(int64_t vectors) {
    for (int64_t threads = kColumnThreads; threads >= kColumnThreads / 2; threads -= loop::kWarp) {
      if (vectors % threads == 0) return threads;
    }
    return kColumnThreads;
  }

  uint32_t ColumnAccumulators() const {
    auto operations = static_cast<int64_t>(group_.nodes.size());
    for (const GroupNode& at : group_.nodes) {
      const auto functions = MathFunctions(graph_, graph_.nodes()[at.node]);
      operations += kFunctionOperations * static_cast<int64_t>(functions.size());
    }
    const int64_t rows = std::clamp<int64_t>(kColumnOperations / operations, 1, kColumnAccumulators);
    return static_cast<uint32_t>(std::bit_floor(static_cast<uint64_t>(rows)));
  }

  bool VectorIsOuter(const Schedule& s) const { return !Any(group_.reduced) || s.columns; }

  bool GoesAlong(const MemoryAccess& access, std::span<const int> dims) {
    return std::ranges::any_of(dims, [&](int d) { return syms_.Mentions(access.index, AxisOf(d)); });
  }

  // Neighbours along the loop over `dims` that a thread takes: one access's worth of the narrowest elements, two of the
  // widest at most. Not where a vector would reach beyond the run's end, unless memory ends there too.
  int64_t Lanes(std::span<const int> dims, bool alone) {
    const Sym run = Extent(dims);
    int64_t narrow = kAccessBytes, wide = 1;
    for (const MemoryAccess& access : probe_.accesses) {
      if (access.root == kNoValue || !GoesAlong(access, dims)) continue;
      const int64_t bytes = ByteSize(graph_.type(access.root)->dtype);
      narrow = std::min(narrow, bytes);
      wide = std::max(wide, bytes);
    }
    int64_t lanes = std::min(kAccessBytes / narrow, 2 * kAccessBytes / wide);
    if (alone) return lanes;
    while (lanes > 1 && !syms_.ProvablyDivisible(run, syms_.Const(lanes))) lanes /= 2;
    return lanes;
  }

  Var AxisOf(int d) const { return *syms_.AsVar(probe_.axes[d]); }

  // Stride of an access along dim d: nothing if it is not affine in it.
  std::optional<Sym> Stride(const MemoryAccess& access, int d) {
    if (!syms_.Mentions(access.index, AxisOf(d))) return syms_.Const(0);
    const std::optional<SymContext::Linear> linear = syms_.AsLinear(access.index, AxisOf(d));
    if (!linear) return std::nullopt;
    return linear->coefficient;
  }

  // The access that decides the loops' order: the first one that steps along the most dims; writes before reads.
  const MemoryAccess* Main() {
    const MemoryAccess* main = nullptr;
    int most = -1;
    for (const bool store : {true, false}) {
      for (const MemoryAccess& access : probe_.accesses) {
        if (access.root == kNoValue || access.store != store) continue;
        int steps = 0;
        for (size_t d = 0; d < group_.space.size(); ++d)
          steps += syms_.Mentions(access.index, AxisOf(static_cast<int>(d)));
        if (steps > most) {
          most = steps;
          main = &access;
        }
      }
    }
    return main;
  }

  // A value by which expressions of sizes are put in order.
  std::optional<int64_t> Nominal(Sym s) {
    const absl::StatusOr<int64_t> value = syms_.Eval(s, [&](Var var) -> std::optional<int64_t> {
      if (var.kind != VarKind::kSize) return std::nullopt;
      const SymRange range = syms_.Range(var);
      return std::min(std::max(kNominalSize, range.min), range.max);
    });
    return value.ok() ? std::optional(*value) : std::nullopt;
  }

  // Dims longer than 1, outermost first: by falling stride of the main access where that is affine.
  std::vector<int> Order() {
    std::vector<int> order;
    for (size_t d = 0; d < group_.space.size(); ++d) {
      if (syms_.AsVar(probe_.axes[d])) order.push_back(static_cast<int>(d));
    }
    const MemoryAccess* main = Main();
    if (main == nullptr) return order;
    std::vector<int64_t> stride(group_.space.size(), 0);
    for (const int d : order) {
      const std::optional<Sym> s = Stride(*main, d);
      const std::optional<int64_t> nominal = s ? Nominal(*s) : std::nullopt;
      if (!nominal || *nominal == 0) return order;
      stride[d] = *nominal;
    }
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return std::pair(stride[b], a) < std::pair(stride[a], b); });
    return order;
  }

  // Neighbours become one loop where every access steps along the outer one by the inner one's whole length.
  std::vector<std::vector<int>> Merge(const std::vector<int>& dims) {
    std::vector<std::vector<int>> merged;
    for (const int d : dims) {
      if (!merged.empty() && Continues(merged.back().back(), d)) {
        merged.back().push_back(d);
      } else {
        merged.push_back({d});
      }
    }
    return merged;
  }

  bool Continues(int outer, int inner) {
    for (const MemoryAccess& access : probe_.accesses) {
      const std::optional<Sym> o = Stride(access, outer), i = Stride(access, inner);
      if (!o || !i || *o != syms_.Mul(*i, group_.space[inner])) return false;
    }
    return true;
  }

  Sym Extent(std::span<const int> dims) {
    Sym extent = syms_.Const(1);
    for (const int d : dims) extent = syms_.Mul(extent, group_.space[d]);
    return extent;
  }

  // Two vectors of f32 an iteration; columns take a cache line's worth of them, since each is a walk down memory.
  uint32_t Width(const Schedule& s) {
    if (s.dims.empty()) return 1;
    uint32_t width = target_.vector_bytes / 4 * 2;
    if (s.columns) width = std::max(width, 64u);
    const Sym extent = Extent(s.columns ? s.dims[s.num_outer - 1] : s.dims.back());
    if (const std::optional<int64_t> fixed = syms_.AsConst(extent)) {
      while (width > 1 && width / 2 >= *fixed) width /= 2;
    }
    return width;
  }

  int64_t Block(const Schedule& s) {
    if (s.dims.empty() || (Any(group_.reduced) && !s.columns)) return 0;
    if (s.columns) return s.width;
    const std::optional<int64_t> inner = syms_.AsConst(Extent(s.dims.back()));
    const bool alone = s.dims.size() == 1;
    return inner && *inner <= (alone ? kBlock : kWholeRow) ? 0 : kBlock;
  }

  // Tiles along the first loop dim that something is read along which would be strided along the vector axis.
  void Tile(Schedule& s) {
    if (s.dims.size() < 2 || !WorthTiling(s.dims.back())) return;
    const Var vector = AxisOf(s.dims.back().back());
    for (size_t i = 0; i + 1 < s.dims.size(); ++i) {
      const Var along = AxisOf(s.dims[i].back());
      const auto across = [&](const MemoryAccess& access) { return IsAcross(syms_, access, along, vector); };
      if (!WorthTiling(s.dims[i]) || std::none_of(probe_.accesses.begin(), probe_.accesses.end(), across)) continue;
      s.tiled = static_cast<int>(i);
      s.block = 0;
      return;
    }
  }

  bool WorthTiling(const std::vector<int>& dims) {
    const std::optional<int64_t> extent = syms_.AsConst(Extent(dims));
    return !extent || *extent >= kLeastTiled;
  }

  const Graph& graph_;
  SymContext& syms_;
  const Group& group_;
  const Probe& probe_;
  const ScheduleTarget& target_;
};

}  // namespace

std::optional<ScheduleTarget> FindScheduleTarget(std::string_view target) {
  if (const CpuMachine* cpu = FindCpuMachine(target))
    return ScheduleTarget{.vector_bytes = static_cast<uint32_t>(cpu->vector_bytes)};
  // What reductions exchange needs a little too.
  if (FindCudaTarget(target) != nullptr) return ScheduleTarget{.shared_bytes = kStaticSharedBytes - (4 << 10)};
  return std::nullopt;
}

Schedule ChooseSchedule(const Graph& graph, const Group& group, const Probe& probe, const ScheduleTarget& target) {
  return Chooser(graph, group, probe, target).Choose();
}

}  // namespace kiln
