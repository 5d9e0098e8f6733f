// The order of steps: the graph's, or one that needs less memory; with few runs of kernels between calls.
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
// Steps that a run of others may go before.
constexpr size_t kRunLookedAt = 64;

}  // namespace

// Bytes alive beside what is alive at the beginning, while steps run.
class Fuser::Alive {
 public:
  explicit Alive(const StepMemory& memory) : memory_(memory), readers_(memory.readers) {}

  // What is alive during it.
  int64_t Run(uint32_t item) {
    const int64_t during = bytes_ += memory_.allocated[item];
    for (const ValueId v : memory_.reads[item]) bytes_ -= --readers_[v] == 0 ? memory_.bytes[v] : 0;
    return during;
  }
  void Undo(uint32_t item) {
    for (const ValueId v : memory_.reads[item]) bytes_ += readers_[v]++ == 0 ? memory_.bytes[v] : 0;
    bytes_ -= memory_.allocated[item];
  }

 private:
  const StepMemory& memory_;
  std::vector<uint32_t> readers_;  // per root: items that still run
  int64_t bytes_ = 0;
};

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
  return least_peak < graphs_peak ? Gathered(least, steps, *memory, least_peak)
                                  : Gathered(graphs, steps, *memory, graphs_peak);
}

// With fewer runs of kernels between calls: a run that reads nothing of the run before it goes before that one, if it
// or what follows joins others of its kind there; unless more than `peak` would then be alive.
std::vector<uint32_t> Fuser::Gathered(const std::vector<uint32_t>& order, const Steps& steps, const StepMemory& memory,
                                      int64_t peak) const {
  struct Run {
    bool calls = false;
    std::vector<uint32_t> items;
  };
  std::vector<Run> runs;
  for (const uint32_t i : order) {
    const bool call = items_[i].external != kNoNode;
    if (runs.empty() || runs.back().calls != call) runs.push_back({.calls = call, .items = {}});
    runs.back().items.push_back(i);
  }
  std::vector<uint32_t> result, run_of(items_.size());
  for (uint32_t r = 0; r < runs.size(); ++r) {
    for (const uint32_t i : runs[r].items) run_of[i] = r;
  }
  Alive alive(memory);
  const auto place = [&](const Run& run) {
    result.insert(result.end(), run.items.begin(), run.items.end());
    for (const uint32_t i : run.items) alive.Run(i);
  };
  const auto reads = [&](uint32_t r, const Run& before) {
    return std::ranges::any_of(before.items, [&](uint32_t i) {
      return std::ranges::any_of(steps.successors[i], [&](uint32_t s) { return run_of[s] == r; });
    });
  };
  const auto peak_of = [&](const Run& first, const Run& second) {
    int64_t most = 0;
    for (const Run* run : {&first, &second}) {
      for (const uint32_t i : run->items) most = std::max(most, alive.Run(i));
    }
    for (const Run* run : {&first, &second}) {
      for (const uint32_t i : run->items) alive.Undo(i);
    }
    return most;
  };
  Run last;  // of what is not placed yet
  for (uint32_t r = 0; r < runs.size(); ++r) {
    Run& run = runs[r];
    if (last.calls == run.calls) {
      last.items.insert(last.items.end(), run.items.begin(), run.items.end());
      continue;
    }
    const bool fewer = run.calls ? r + 1 < runs.size() : !result.empty();
    if (fewer && last.items.size() <= kRunLookedAt && !reads(r, last) && peak_of(run, last) <= peak) {
      place(run);
    } else {
      place(last);
      last = std::move(run);
    }
  }
  place(last);
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

int64_t Fuser::Peak(const std::vector<uint32_t>& order, const StepMemory& memory) {
  Alive alive(memory);
  int64_t peak = 0;
  for (const uint32_t i : order) peak = std::max(peak, alive.Run(i));
  return peak;
}

}  // namespace kiln
