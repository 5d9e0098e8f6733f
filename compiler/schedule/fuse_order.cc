// The order of steps: the graph's, or one that needs less memory; calls stand together where that costs no memory.
#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "compiler/schedule/fuser.h"

namespace kiln {
namespace {

// Ready steps that are looked at before one is taken.
constexpr size_t kReadyLookedAt = 16;

}  // namespace

// In dependence order; among the steps that are ready the one that the graph has first.
absl::StatusOr<std::vector<uint32_t>> Fuser::Order() {
  const std::vector<uint32_t> live = LiveItems();
  Steps steps{.live = live,
              .successors = std::vector<std::vector<uint32_t>>(items_.size()),
              .missing = std::vector<uint32_t>(items_.size())};
  Dependences(live, steps.successors, steps.missing);
  const std::vector<uint32_t> graphs = InOrder(steps, nullptr);
  if (graphs.size() != live.size()) return absl::InternalError("fusion made a cycle");
  const std::optional<StepMemory> memory = MemoryOf(live);
  if (!memory) return graphs;
  const std::vector<uint32_t> least = InOrder(steps, &*memory);
  const int64_t graphs_peak = Peak(graphs, *memory), least_peak = Peak(least, *memory);
  return least_peak < graphs_peak ? CallsFirst(least, steps, *memory, least_peak)
                                  : CallsFirst(graphs, steps, *memory, graphs_peak);
}

// A call that needs nothing of the kernels before it goes before them, so that they and those after it are one run of
// kernels; unless more than `peak` would then be alive.
std::vector<uint32_t> Fuser::CallsFirst(const std::vector<uint32_t>& order, const Steps& steps,
                                        const StepMemory& memory, int64_t peak) const {
  std::vector<uint32_t> result, kernels, readers = memory.readers;
  std::vector<uint32_t> awaited(items_.size());  // of `kernels`, those that an item comes after
  int64_t alive = 0, most = 0;                   // most: since the first of `kernels`
  for (const uint32_t i : order) {
    const bool call = items_[i].external != kNoNode;
    const bool first = call && awaited[i] == 0 && most + memory.allocated[i] <= peak;
    if (call && !first) {
      for (const uint32_t kernel : kernels) {
        for (const uint32_t s : steps.successors[kernel]) --awaited[s];
      }
      result.insert(result.end(), kernels.begin(), kernels.end());
      kernels.clear();
    }
    alive += memory.allocated[i];
    if (call) {
      result.push_back(i);
      most = kernels.empty() ? 0 : most + memory.allocated[i];
    } else {
      kernels.push_back(i);
      for (const uint32_t s : steps.successors[i]) ++awaited[s];
      most = std::max(most, alive);
    }
    for (const ValueId v : memory.reads[i]) alive -= --readers[v] == 0 ? memory.bytes[v] : 0;
  }
  result.insert(result.end(), kernels.begin(), kernels.end());
  return result;
}

// With `memory`: of the ready steps the one after which least more is alive than before.
std::vector<uint32_t> Fuser::InOrder(const Steps& steps, const StepMemory* memory) const {
  std::vector<uint32_t> missing = steps.missing, order, readers;
  if (memory != nullptr) readers = memory->readers;
  std::set<std::pair<NodeId, uint32_t>> ready;
  for (const uint32_t i : steps.live) {
    if (missing[i] == 0) ready.insert({LastNode(i), i});
  }
  const auto growth = [&](uint32_t i) {
    int64_t bytes = memory->allocated[i];
    for (const ValueId v : memory->reads[i]) bytes -= readers[v] == 1 ? memory->bytes[v] : 0;
    return bytes;
  };
  while (!ready.empty()) {
    auto best = ready.begin();
    if (memory != nullptr && ready.size() > 1) {
      const auto end = std::next(ready.begin(), static_cast<ptrdiff_t>(std::min(ready.size(), kReadyLookedAt)));
      int64_t least = growth(best->second);
      for (auto it = std::next(best); it != end; ++it) {
        const int64_t bytes = growth(it->second);
        if (bytes < least) std::tie(least, best) = std::tuple(bytes, it);
      }
    }
    const uint32_t i = best->second;
    ready.erase(best);
    order.push_back(i);
    if (memory != nullptr) {
      for (const ValueId v : memory->reads[i]) --readers[v];
    }
    for (const uint32_t s : steps.successors[i]) {
      if (--missing[s] == 0) ready.insert({LastNode(s), s});
    }
  }
  return order;
}

// Nothing if a size is a variable.
std::optional<Fuser::StepMemory> Fuser::MemoryOf(const std::vector<uint32_t>& live) {
  StepMemory memory{.bytes = std::vector<int64_t>(graph_.num_values()),
                    .readers = std::vector<uint32_t>(graph_.num_values()),
                    .allocated = std::vector<int64_t>(items_.size()),
                    .reads = std::vector<std::vector<ValueId>>(items_.size())};
  for (ValueId v = 0; v < graph_.num_values(); ++v) {
    if (graph_.type(v) == nullptr || aliases_.root(v) != v) continue;
    const std::optional<int64_t> elements = syms_.AsConst(StorageSize(syms_, *graph_.type(v)));
    if (!elements) return std::nullopt;
    memory.bytes[v] = *elements * ByteSize(graph_.type(v)->dtype);
  }
  std::vector<bool> stays(graph_.num_values(), false);
  const auto keep = [&](ValueId v) { stays[aliases_.root(v)] = true; };
  for (const GraphOutput& out : graph_.outputs()) {
    if (out.kind == GraphOutput::Kind::kValue) keep(out.value);
  }
  for (const GraphUpdate& update : graph_.updates()) keep(update.value);
  for (const GraphConstant& constant : graph_.constants()) keep(constant.value);
  for (const GraphInput& input : graph_.inputs()) {
    if (input.value != kNoValue && !limits_.inputs_die) keep(input.value);
  }
  for (const uint32_t i : live) {
    std::set<ValueId> reads;
    const auto add = [&](NodeId n) {
      ForEachRoot(n, [&](ValueId root) {
        const NodeId p = graph_.producer(root);
        if (!stays[root] && (p == kNoNode || (in_memory_[root] && ItemOf(p) != i))) reads.insert(root);
      });
      const Node& node = graph_.nodes()[n];
      for (uint32_t r = 0; r < node.num_results; ++r) {
        const ValueId v = node.first_result + r;
        if (in_memory_[v] || items_[i].external != kNoNode) memory.allocated[i] += memory.bytes[v];
      }
    };
    if (items_[i].external != kNoNode) add(items_[i].external);
    for (const GroupNode& at : items_[i].nodes) add(at.node);
    for (const Part& part : items_[i].bundled) {
      for (const GroupNode& at : part.nodes) add(at.node);
    }
    memory.reads[i].assign(reads.begin(), reads.end());
    for (const ValueId v : reads) ++memory.readers[v];
  }
  return memory;
}

// Bytes alive at most, beside what is alive at the beginning.
int64_t Fuser::Peak(const std::vector<uint32_t>& order, const StepMemory& memory) {
  std::vector<uint32_t> readers = memory.readers;
  int64_t alive = 0, peak = 0;
  for (const uint32_t i : order) {
    alive += memory.allocated[i];
    peak = std::max(peak, alive);
    for (const ValueId v : memory.reads[i]) alive -= --readers[v] == 0 ? memory.bytes[v] : 0;
  }
  return peak;
}

}  // namespace kiln
