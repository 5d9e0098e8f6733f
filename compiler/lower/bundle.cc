#include "compiler/lower/bundle.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "compiler/loop/mutate.h"
#include "compiler/loop/text.h"

namespace kiln {
namespace {

constexpr int64_t kMaxScratchBytes = 64 << 10;

class Bundler {
 public:
  explicit Bundler(SymContext& graph_syms) : graph_syms_(graph_syms), syms_(*bundle_.kernel.syms) {
    parallel_ = bundle_.kernel.num_axes++;
    bundle_.extent = graph_syms_.Const(0);
    bundle_.grain = graph_syms_.Const(1);
  }

  LoweredKernel Bundle(std::vector<LoweredKernel> parts) {
    Sym total = syms_.Const(0), grain = syms_.Const(1);
    for (const LoweredKernel& part : parts) {
      total = syms_.Add(total, ParallelExtent(part));
      bundle_.extent = graph_syms_.Add(bundle_.extent, part.extent);
      bundle_.grain = graph_syms_.Max(bundle_.grain, part.grain);
      grain = syms_.Max(grain, Sizes(part, ParallelLoop(part).axis.grain));
    }
    const Sym p = syms_.Axis(parallel_, total);
    Sym offset = syms_.Const(0);
    for (LoweredKernel& part : parts) {
      const Sym extent = ParallelExtent(part);
      // Runs once in the part's own iterations, and not in the others'.
      const Sym at = syms_.Sub(p, offset), zero = syms_.Const(0), one = syms_.Const(1);
      const Sym below = syms_.Max(zero, syms_.Sub(extent, at)), above = syms_.Max(zero, syms_.Add(at, one));
      AddPart(part, syms_.Min(one, syms_.Min(below, above)), at);
      offset = syms_.Add(offset, extent);
    }
    loop::For outer{.axis = {.id = parallel_, .extent = total, .kind = loop::AxisKind::kParallel, .grain = grain},
                    .body = {}};
    outer.body = std::move(body_);
    bundle_.kernel.body.push_back({std::move(outer)});
    std::vector<Sym> sizes;
    for (const uint32_t old : loop::Normalize(bundle_.kernel)) sizes.push_back(bundle_.sizes[old]);
    bundle_.sizes = std::move(sizes);
    return std::move(bundle_);
  }

 private:
  static loop::For& ParallelLoop(LoweredKernel& part) { return std::get<loop::For>(part.kernel.body.front().node); }
  static const loop::For& ParallelLoop(const LoweredKernel& part) {
    return std::get<loop::For>(part.kernel.body.front().node);
  }

  // The bundle's parameter for a size of the graph.
  uint32_t SizeOf(Sym graph_size) {
    const auto [it, added] = size_of_.try_emplace(graph_size, static_cast<uint32_t>(bundle_.sizes.size()));
    if (added) bundle_.sizes.push_back(graph_size);
    return it->second;
  }

  Sym ImportSize(const LoweredKernel& part, Var var) {
    return syms_.Size(SizeOf(part.sizes[var.index]), part.kernel.syms->Range(var));
  }

  Sym Sizes(const LoweredKernel& part, Sym s) {
    return syms_.Import(*part.kernel.syms, s, [&](Var var) { return ImportSize(part, var); });
  }
  Sym ParallelExtent(const LoweredKernel& part) { return Sizes(part, ParallelLoop(part).axis.extent); }

  // A loop of `extent` with the part's body, whose parallel index there is `index`.
  void AddPart(LoweredKernel& part, Sym extent, Sym index) {
    loop::For& old = ParallelLoop(part);
    const loop::AxisId parallel = old.axis.id, outer = bundle_.kernel.num_axes++;
    syms_.Axis(outer, extent);
    const uint32_t first_axis = bundle_.kernel.num_axes, first_value = bundle_.kernel.num_values;
    bundle_.kernel.num_axes += part.kernel.num_axes;
    bundle_.kernel.num_values += part.kernel.num_values;
    absl::flat_hash_map<Var, Sym> known;
    const std::function<Sym(Var)> variable = [&](Var var) -> Sym {
      if (var.kind == VarKind::kSize) return ImportSize(part, var);
      if (var.kind == VarKind::kAxis && var.index == parallel) return index;
      if (const auto it = known.find(var); it != known.end()) return it->second;
      const Sym bound = syms_.Import(*part.kernel.syms, *part.kernel.syms->Extent(var), variable);
      const Sym made = var.kind == VarKind::kAxis ? syms_.Axis(first_axis + var.index, bound)
                                                  : syms_.Value(first_value + var.index, bound);
      return known[var] = made;
    };
    const auto import = [&](Sym s) { return syms_.Import(*part.kernel.syms, s, variable); };
    const std::vector<loop::BufferId> buffers = AddBuffers(part, import);
    loop::Walk(old.body, [&](loop::Stmt& stmt) {
      loop::ForEachResult(stmt, [&](loop::ValueId& v) { v += first_value; });
      loop::ForEachOperand(stmt, [&](loop::ValueId& v) { v += first_value; });
      loop::ForEachYield(stmt, [&](loop::ValueId& v) { v += first_value; });
      loop::ForEachSym(stmt, [&](Sym& s) { s = import(s); });
      if (loop::Axis* axis = loop::AxisOf(stmt)) {
        variable({VarKind::kAxis, axis->id});  // nothing else may mention it
        axis->id += first_axis;
      }
      if (auto* let = std::get_if<loop::Let>(&stmt.node); let != nullptr && let->op == loop::Op::kLoad)
        let->buffer = buffers[let->buffer];
      if (auto* store = std::get_if<loop::Store>(&stmt.node)) store->buffer = buffers[store->buffer];
      if (auto* prefetch = std::get_if<loop::Prefetch>(&stmt.node)) prefetch->buffer = buffers[prefetch->buffer];
    });
    body_.push_back({loop::For{.axis = {.id = outer, .extent = extent}, .body = std::move(old.body)}});
  }

  std::vector<loop::BufferId> AddBuffers(const LoweredKernel& part, const std::function<Sym(Sym)>& import) {
    std::vector<loop::BufferId> ids;
    size_t global = 0;
    for (const loop::Buffer& buffer : part.kernel.buffers) {
      const auto fresh = static_cast<loop::BufferId>(bundle_.kernel.buffers.size());
      if (buffer.space == loop::Space::kGlobal) {
        const KernelBuffer& what = part.buffers[global++];
        const auto [it, added] = buffer_of_.try_emplace({what.root, what.partial}, fresh);
        ids.push_back(it->second);
        if (!added) {
          loop::Access& access = bundle_.kernel.buffers[it->second].access;
          if (access != buffer.access) access = loop::Access::kReadWrite;
          continue;
        }
        bundle_.buffers.push_back(what);
      } else {
        ids.push_back(fresh);
      }
      bundle_.kernel.buffers.push_back(buffer);
      bundle_.kernel.buffers.back().size = import(buffer.size);
    }
    return ids;
  }

  SymContext& graph_syms_;
  LoweredKernel bundle_;
  SymContext& syms_;
  loop::AxisId parallel_ = 0;
  loop::Block body_;
  absl::flat_hash_map<Sym, uint32_t> size_of_;                                   // by size of the graph
  absl::flat_hash_map<std::pair<ValueId, uint32_t>, loop::BufferId> buffer_of_;  // by root and partial result
};

}  // namespace

bool CanBundle(const std::vector<LoweredKernel>& parts) {
  int64_t scratch = 0;
  for (const LoweredKernel& part : parts) {
    for (const loop::Buffer& buffer : part.kernel.buffers) {
      if (buffer.space != loop::Space::kGlobal)
        scratch += part.kernel.syms->AsConst(buffer.size).value_or(0) * ByteSize(buffer.dtype);
    }
  }
  return scratch <= kMaxScratchBytes;
}

LoweredKernel Bundle(SymContext& graph_syms, std::vector<LoweredKernel> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  return Bundler(graph_syms).Bundle(std::move(parts));
}

}  // namespace kiln
