// From a group of nodes to its kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/loop/ir.h"
#include "compiler/lower/alias.h"
#include "compiler/lower/group.h"
#include "compiler/lower/index.h"

namespace kiln {

// How a group's space becomes loops: printable data.
//
// The dims of the space are taken in some order and merged into the loop dims `dims`; the innermost loop dim is the
// vector axis. Without reductions: parallel over the outer dims and over blocks of `block` iterations of the inner one.
// Rows (the innermost dim is reduced): parallel over the outer dims, reductions along the vector axis. Columns (the
// reduced dims are outside the innermost): parallel over the outer dims and blocks of the inner one, serial reductions
// inside the vector axis.
//
// Sinks: reductions into partial results, one tuple for each chunk of the sunk dims and each point of the others, which
// a second kernel folds; its results do not depend on the number of threads, since that of chunks follows from sizes.
// kOutside: parallel over chunks of the sunk dims, which are one loop outside all others; the chunk's partial results
// are accumulated in memory, row by row. kInside: parallel over the other dims and chunks of the outermost sunk loop
// dim; accumulated in registers. A group without `sunk` dims takes its reduced ones for them.
//
// Tiles, of groups without reductions: where memory is contiguous along another loop dim than the vector axis, `tiled`,
// the two are cut into squares of `tile`; what is read across (IsAcross) is first copied to scratch, along its own
// memory.
struct Schedule {
  enum class Sink : uint8_t { kNone, kOutside, kInside };
  std::vector<std::vector<int>> dims;  // loop dims, outermost first: positions in the space, outermost first
  int num_outer = 0;     // of these, the first so many are not reduced; kOutside: are those that the sinks go along;
                         // kInside: are not sunk
  bool columns = false;  // the vector axis is dims[num_outer - 1]; else it is dims.back()
  Sink sink = Sink::kNone;
  uint32_t width = 1;
  // A GPU: the vector axis is the block's threads, with so many neighbours each (loop::AxisKind::kThread); 0: a CPU.
  uint32_t lanes = 0;
  uint32_t accumulators = 1;
  int64_t block = 0;           // iterations of the vector axis in one parallel step; 0: all of them
  int64_t grain_work = 32768;  // element operations a thread should get at least
  bool registers = false;  // GPU: a row, and what sinks along it come to, is small enough for its threads' registers
  int64_t scratch_bytes = 24 << 10;  // for rows that several loops need: of the memory nearest to the core
  int64_t chunk_points = 16384;      // points a chunk should have at least
  int64_t max_chunks = 64;
  bool fill = false;  // a scatter: its kernel also writes what the results hold before
  int tiled = -1;     // loop dim; -1: no tiles
  int64_t tile = 32;
  bool on_gpu() const { return lanes > 0; }
  std::string ToString() const;
};

// Warps of a GPU's block that share the chunks of the points which it finishes.
inline constexpr int64_t kFinishGroups = 16;

// What a global buffer of a kernel is: a root's memory (Aliases::root), or a partial result of the group.
struct KernelBuffer {
  ValueId root = kNoValue;
  uint32_t partial = 0;  // where there is no root (else 0): index into LoweredGroup::partials
};

struct LoweredKernel {
  loop::Kernel kernel;                // in its own context, normalised; origins of statements are nodes of the graph
  std::vector<KernelBuffer> buffers;  // one a global buffer
  std::vector<Sym> sizes;             // one a size parameter, in the graph's context
  Sym extent;                         // of the parallel axis, in the graph's context
  Sym grain;
};

// What a group becomes: one kernel, or one that leaves partial results of sinks and one that folds them.
struct LoweredGroup {
  struct Partial {
    DType dtype = DType::kFloat32;
    Sym elements;
  };
  std::vector<LoweredKernel> kernels;  // in order of launch
  std::vector<Partial> partials;
};

// Every access to memory that lowering the group makes, as (root, flat index over `axes`): what Choose decides by.
struct MemoryAccess {
  ValueId root = kNoValue;
  Sym index;
  bool store = false;
  bool masked = false;
  bool operator==(const MemoryAccess&) const = default;
};
struct Probe {
  Index axes;  // one a dim of the space
  std::vector<MemoryAccess> accesses;
  std::vector<std::vector<MemoryAccess>> loads;  // by the loop (phase) that makes them: Evaluator::TakeLoads
};
absl::StatusOr<Probe> ProbeGroup(const Graph& graph, const Aliases& aliases, const Group& group);

// The access, a read at every point and affine in both axes, is contiguous along axis `along` and strided along axis
// `vector`.
bool IsAcross(SymContext& syms, const MemoryAccess& access, Var along, Var vector);

// A result that is stored where a dying value stood, element for element (schedule/reuse.h: when it may).
struct Reuse {
  ValueId result = kNoValue;
  ValueId dying = kNoValue;  // a root
};

// `probe`: the group's own. The buffer of a pair in `reuse` is the dying value's.
absl::StatusOr<LoweredGroup> LowerGroup(const Graph& graph, const Aliases& aliases, const Group& group,
                                        const Schedule& schedule, const Probe& probe,
                                        std::span<const Reuse> reuse = {});

}  // namespace kiln
