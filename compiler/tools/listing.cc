#include "compiler/tools/listing.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/graph/text.h"
#include "compiler/loop/mutate.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"
#include "compiler/lower/alias.h"
#include "compiler/mathlib/expand.h"
#include "compiler/schedule/fuse.h"
#include "compiler/schedule/lower_step.h"

namespace kiln {
namespace {

// The origin of a reduction is that of what folds it.
uint32_t OriginOf(const loop::Stmt& stmt) {
  const auto* reduce = std::get_if<loop::Reduce>(&stmt.node);
  if (stmt.origin != loop::kNone || reduce == nullptr || reduce->combine.empty()) return stmt.origin;
  return reduce->combine.back().origin;
}

// Vector constants of equal elements as later versions of LLVM write them: "<float 1.0, float 1.0>" is "splat
// (float 1.0)". Lines stay.
std::string WithSplats(const std::string& text) {
  std::string out;
  size_t done = 0;
  for (size_t open = text.find('<'); open != std::string::npos; open = text.find('<', open + 1)) {
    const size_t close = text.find_first_of("<>\n", open + 1);
    const size_t comma = text.find(", ", open);
    if (close == std::string::npos || text[close] != '>' || comma == std::string::npos || comma > close) continue;
    const std::string element = text.substr(open + 1, comma - open - 1);
    size_t next = comma;
    while (text.compare(next, 2, ", ") == 0 && text.compare(next + 2, element.size(), element) == 0) {
      next += 2 + element.size();
    }
    if (next != close) continue;
    absl::StrAppend(&out, text.substr(done, open - done), "splat (", element, ")");
    done = close + 1;
  }
  return out + text.substr(done);
}

// Kernels with the same text are one.
class Kernels {
 public:
  struct Added {
    uint32_t index = 0;
    std::vector<uint32_t> origins;  // one a line of its text: Stmt::origin
  };

  Added Add(loop::Kernel kernel) {
    Added added;
    std::vector<const loop::Stmt*> lines;
    std::string text = loop::ToText(kernel, lines);
    for (const loop::Stmt* stmt : lines) added.origins.push_back(stmt == nullptr ? loop::kNone : OriginOf(*stmt));
    const auto [it, fresh] = index_.try_emplace(text, static_cast<uint32_t>(index_.size()));
    added.index = it->second;
    if (!fresh) return added;
    absl::flat_hash_map<const loop::Stmt*, uint32_t> first;
    for (uint32_t i = 0; i < lines.size(); ++i) first.try_emplace(lines[i], i);
    loop::Walk(kernel.body, [&](loop::Stmt& stmt) { stmt.origin = first.at(&stmt); });
    sources_.push_back(std::move(kernel));
    listed_.push_back({std::move(text), {}});
    return added;
  }

  absl::StatusOr<std::vector<ListedKernel>> Compile(std::string_view target) {
    std::vector<absl::Status> statuses(sources_.size());
    std::atomic<size_t> next = 0;
    const auto work = [&] {
      for (size_t i; (i = next++) < sources_.size();) statuses[i] = CompileOne(i, target);
    };
    std::vector<std::thread> threads;
    for (unsigned t = 1; t < std::min<size_t>(std::thread::hardware_concurrency(), sources_.size()); ++t) {
      threads.emplace_back(work);
    }
    work();
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) {
      if (!status.ok()) return status;
    }
    return std::move(listed_);
  }

 private:
  absl::Status CompileOne(size_t i, std::string_view target) {
    if (absl::Status status = mathlib::Expand(sources_[i]); !status.ok()) return status;
    absl::StatusOr<TracedCode> code = TraceCode(sources_[i], absl::StrCat("kernel_", i), target);
    if (!code.ok()) return code.status();
    code->llvm.text = WithSplats(code->llvm.text);
    listed_[i].code = *std::move(code);
    return absl::OkStatus();
  }

  absl::flat_hash_map<std::string, uint32_t> index_;  // by text
  std::vector<loop::Kernel> sources_;                 // Stmt::origin is the line in the text
  std::vector<ListedKernel> listed_;
};

class FunctionLister {
 public:
  FunctionLister(const NamedGraph& function, const ScheduleTarget& target, Kernels& kernels)
      : function_(function), graph_(*function.graph), aliases_(graph_), target_(target), kernels_(kernels) {}

  absl::StatusOr<std::vector<ListedStep>> Steps() {
    const absl::StatusOr<Fusion> fusion = Fuse(graph_, aliases_, {.inputs_die = function_.inputs_die});
    if (!fusion.ok()) return fusion.status();
    HostMemory memory(graph_, aliases_, *fusion);
    std::vector<ListedStep> steps;
    for (size_t s = 0; s < fusion->order.size(); ++s) {
      const FusedStep& fused = fusion->order[s];
      if (fused.kind == FusedStep::Kind::kExternal) {
        steps.push_back({.nodes = WithViews({fused.index})});
        continue;
      }
      absl::StatusOr<LoweredStep> lowered = LowerStep(graph_, aliases_, *fusion, fused, target_, memory.During(s));
      if (!lowered.ok()) return lowered.status();
      memory.Note(lowered->reuse);
      std::set<NodeId> nodes;
      for (uint32_t g = fused.index; g < fused.index + fused.count; ++g) {
        for (const GroupNode& at : fusion->groups[g].nodes) nodes.insert(at.node);
      }
      std::string schedule;
      for (const Schedule& each : lowered->schedules) {
        absl::StrAppend(&schedule, schedule.empty() ? "" : "; ", each.ToString());
      }
      for (LoweredKernel& kernel : lowered->kernels) steps.push_back(Launch(std::move(kernel), nodes, schedule));
    }
    return steps;
  }

 private:
  ListedStep Launch(LoweredKernel kernel, std::set<NodeId> nodes, const std::string& schedule) {
    const size_t first_buffer = kernel.kernel.num_sizes > 0 ? 2 : 1;  // after "kernel {" and the sizes
    std::vector<uint32_t> makers;
    size_t global = 0;
    for (const loop::Buffer& buffer : kernel.kernel.buffers) {
      const ValueId root = buffer.space == loop::Space::kGlobal ? kernel.buffers[global++].root : kNoValue;
      makers.push_back(root == kNoValue ? loop::kNone : graph_.producer(root));
    }
    Kernels::Added added = kernels_.Add(std::move(kernel.kernel));
    for (const uint32_t origin : added.origins) {
      if (origin != loop::kNone) nodes.insert(origin);
    }
    std::ranges::copy(makers, added.origins.begin() + static_cast<std::ptrdiff_t>(first_buffer));
    return {
        .kernel = added.index, .schedule = schedule, .nodes = WithViews(nodes), .origins = std::move(added.origins)};
  }

  std::vector<NodeId> WithViews(const std::set<NodeId>& nodes) const {
    std::set<NodeId> all = nodes;
    for (const NodeId node : nodes) {
      ForEachValue(std::span<const Arg>(graph_.nodes()[node].args), [&](ValueId value) {
        while (aliases_.is_view(value)) {
          const NodeId view = graph_.producer(value);
          all.insert(view);
          value = Call(graph_, graph_.nodes()[view]).value(0);
        }
      });
    }
    return {all.begin(), all.end()};
  }

  const NamedGraph& function_;
  const Graph& graph_;
  const Aliases aliases_;
  const ScheduleTarget& target_;
  Kernels& kernels_;
};

ListedGraph ListGraph(std::string name, const Graph& graph) {
  ListedGraph listed{.name = std::move(name), .text = {}, .nodes = {}, .origins = {}, .steps = {}};
  listed.text = PrintGraph(graph, listed.nodes);
  for (const Node& node : graph.nodes()) listed.origins.push_back(node.origin);
  return listed;
}

}  // namespace

absl::StatusOr<Listing> List(const Program& program, std::string_view target) {
  const std::optional<ScheduleTarget> schedule = FindScheduleTarget(target);
  if (!schedule || schedule->on_gpu())
    return absl::InvalidArgumentError(absl::StrCat("unknown target ", std::string(target)));
  Listing listing{.target = std::string(target), .graphs = {}, .kernels = {}};
  Kernels kernels;
  if (program.kernel) {
    if (absl::Status status = loop::Verify(*program.kernel); !status.ok()) return status;
    kernels.Add(loop::Clone(*program.kernel));
  } else {
    const absl::StatusOr<GraphFunctions> made = FunctionsOf(program);
    if (!made.ok()) return made.status();
    listing.graphs.push_back(ListGraph("request", *program.graph));
    for (const NamedGraph& function : made->functions) {
      ListedGraph listed = ListGraph(function.name, *function.graph);
      absl::StatusOr<std::vector<ListedStep>> steps = FunctionLister(function, *schedule, kernels).Steps();
      if (!steps.ok()) return steps.status();
      listed.steps = *std::move(steps);
      listing.graphs.push_back(std::move(listed));
    }
  }
  absl::StatusOr<std::vector<ListedKernel>> compiled = kernels.Compile(target);
  if (!compiled.ok()) return compiled.status();
  listing.kernels = *std::move(compiled);
  return listing;
}

}  // namespace kiln
