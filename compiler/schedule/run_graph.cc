#include "compiler/schedule/run_graph.h"

#include <optional>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/loop/interp.h"
#include "compiler/loop/text.h"
#include "compiler/lower/alias.h"
#include "compiler/lower/index.h"
#include "compiler/schedule/lower_step.h"

namespace kiln {
namespace {

class Runner {
 public:
  Runner(const Graph& graph, const RunGraphOptions& options)
      : graph_(graph),
        options_(options),
        aliases_(graph),
        memory_(graph.num_values()),
        reads_(graph.num_values()),
        writes_(graph.num_values()) {}

  absl::StatusOr<GraphRun> Run(std::vector<std::string> inputs) {
    size_t next = 0;
    for (const GraphInput& input : graph_.inputs()) {
      if (input.value == kNoValue) continue;
      if (next == inputs.size()) return absl::InvalidArgumentError("too few inputs");
      memory_[input.value] = std::move(inputs[next++]);
    }
    for (const GraphConstant& constant : graph_.constants()) memory_[constant.value] = constant.data;
    absl::StatusOr<Fusion> fusion = Fuse(graph_, aliases_, options_.limits);
    if (!fusion.ok()) return fusion.status();
    const LastUses last_uses(graph_, aliases_, *fusion);
    for (size_t s = 0; s < fusion->order.size(); ++s) {
      const FusedStep& step = fusion->order[s];
      if (step.kind == FusedStep::Kind::kExternal) {
        return absl::InvalidArgumentError(absl::StrCat("node ", step.index, " is an external call"));
      }
      absl::Status status = RunStep(*fusion, step, [&](ValueId, ValueId dying) { return last_uses.DiesIn(dying, s); });
      if (!status.ok()) return status;
    }
    for (const GraphInput& input : graph_.inputs()) {
      if (input.value != kNoValue) run_.input_reads.push_back(reads_[input.value]);
    }
    for (const GraphOutput& out : graph_.outputs()) {
      if (out.kind != GraphOutput::Kind::kValue) continue;
      run_.outputs.push_back(memory_[Place(aliases_.root(out.value))]);
      run_.output_writes.push_back(writes_[Place(aliases_.root(out.value))]);
    }
    return std::move(run_);
  }

 private:
  // The root whose memory `root` stands in.
  ValueId Place(ValueId root) const {
    const auto it = place_.find(root);
    return it == place_.end() ? root : it->second;
  }

  absl::StatusOr<int64_t> Value(Sym s) const {
    return graph_.syms().Eval(s, [&](Var var) -> std::optional<int64_t> {
      if (var.kind != VarKind::kSize || var.index >= options_.sizes.size()) return std::nullopt;
      return options_.sizes[var.index];
    });
  }

  absl::Status RunStep(const Fusion& fusion, const FusedStep& step, const MayReuse& may_reuse) {
    absl::StatusOr<LoweredStep> lowered = LowerStep(graph_, aliases_, fusion, step, options_.target, may_reuse);
    if (!lowered.ok()) return lowered.status();
    for (const Reuse& pair : lowered->reuse) place_[pair.result] = Place(pair.dying);
    run_.reused += lowered->reuse.size();
    run_.schedules.insert(run_.schedules.end(), lowered->schedules.begin(), lowered->schedules.end());
    for (const Group& group : std::span(fusion.groups).subspan(step.index, step.count)) {
      if (absl::Status status = Allocate(group); !status.ok()) return status;
    }
    std::vector<std::string> partials;
    for (const LoweredGroup::Partial& partial : lowered->partials) {
      absl::StatusOr<int64_t> elements = Value(partial.elements);
      if (!elements.ok()) return elements.status();
      partials.emplace_back(std::max<int64_t>(*elements, 0) * ByteSize(partial.dtype), '\xcd');
    }
    for (const LoweredKernel& kernel : lowered->kernels) {
      if (absl::Status status = RunOne(kernel, partials); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Allocate(const Group& group) {
    for (const ValueId v : group.outputs) {
      if (place_.contains(v)) continue;
      absl::StatusOr<int64_t> elements = Value(StorageSize(graph_.syms(), *graph_.type(v)));
      if (!elements.ok()) return elements.status();
      memory_[v].assign(std::max<int64_t>(*elements, 0) * ByteSize(graph_.type(v)->dtype), '\xcd');
    }
    return absl::OkStatus();
  }

  absl::Status RunOne(const LoweredKernel& lowered, std::vector<std::string>& partials) {
    run_.kernels.push_back(loop::ToText(lowered.kernel));
    std::vector<loop::BufferArg> args;
    size_t next = 0;
    for (const KernelBuffer& buffer : lowered.buffers) {
      while (lowered.kernel.buffers[next].space != loop::Space::kGlobal) ++next;
      std::string& memory = buffer.root != kNoValue ? memory_[Place(buffer.root)] : partials[buffer.partial];
      args.push_back(
          {memory.data(), static_cast<int64_t>(memory.size()) / ByteSize(lowered.kernel.buffers[next++].dtype)});
    }
    std::vector<int64_t> sizes;
    for (const Sym s : lowered.sizes) {
      absl::StatusOr<int64_t> size = Value(s);
      if (!size.ok()) return size.status();
      sizes.push_back(*size);
    }
    absl::StatusOr<loop::RunStats> stats = loop::Interpret(lowered.kernel, args, sizes);
    if (!stats.ok())
      return absl::Status(stats.status().code(),
                          absl::StrCat(std::string(stats.status().message()), "\n", run_.kernels.back()));
    if (stats->error != 0) return absl::OutOfRangeError("index out of range");
    size_t global = 0;
    for (size_t i = 0; i < lowered.kernel.buffers.size(); ++i) {
      if (lowered.kernel.buffers[i].space != loop::Space::kGlobal) continue;
      const ValueId root = lowered.buffers[global++].root;
      if (root == kNoValue) continue;
      reads_[root] += stats->reads[i];
      writes_[root] += stats->writes[i];
    }
    for (const uint64_t n : stats->reads) run_.reads += n;
    for (const uint64_t n : stats->writes) run_.writes += n;
    return absl::OkStatus();
  }

  const Graph& graph_;
  const RunGraphOptions& options_;
  const Aliases aliases_;
  std::vector<std::string> memory_;  // per root value
  absl::flat_hash_map<ValueId, ValueId> place_;
  std::vector<uint64_t> reads_, writes_;  // per root value
  GraphRun run_;
};

}  // namespace

absl::StatusOr<GraphRun> RunGraph(const Graph& graph, std::vector<std::string> inputs, const RunGraphOptions& options) {
  return Runner(graph, options).Run(std::move(inputs));
}

}  // namespace kiln
