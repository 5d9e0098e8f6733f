#include "compiler/compile/function.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compiler/compile/external.h"
#include "compiler/compile/sym_table.h"
#include "compiler/graph/node_status.h"
#include "compiler/loop/text.h"
#include "compiler/lower/alias.h"
#include "compiler/lower/index.h"
#include "compiler/memory/workspace.h"
#include "compiler/schedule/fuse.h"
#include "compiler/schedule/lower_step.h"
#include "compiler/schedule/reuse.h"

namespace kiln {
namespace {

constexpr uint32_t kUnused = 0xffffffff;
constexpr int64_t kPeakShare = 48;  // a function's peak may grow by one in so many for fewer launches
constexpr int64_t kSomeSize = 37;           // of a variable size, where an estimate or a check needs one

class FunctionBuilder {
 public:
  FunctionBuilder(const Graph& graph, const FunctionOptions& options, const PassContext& context, KernelPool& pool)
      : graph_(graph),
        syms_(graph.syms()),
        options_(options),
        context_(context),
        run_(context),
        pool_(pool),
        aliases_(graph),
        table_(syms_, *function_.mutable_syms()),
        plan_of_(graph.num_values(), kUnused) {
    function_.set_name(context.subject);
  }

  absl::StatusOr<v1::Function> Build() {
    AddInputs();
    if (absl::Status status = run_.Begin("fuse"); !status.ok()) return status;
    absl::StatusOr<Fusion> fusion = Fuse(graph_, aliases_, {.inputs_die = options_.inputs_die});
    if (!fusion.ok()) return fusion.status();
    run_.End("fuse");
    HostMemory memory(graph_, aliases_, *fusion, /*recycles=*/!options_.target.on_gpu());
    for (size_t s = 0; s < fusion->order.size(); ++s) {
      const FusedStep& step = fusion->order[s];
      const bool group = step.kind == FusedStep::Kind::kGroup;
      const NodeId node = group ? fusion->groups[step.index].nodes.front().node : step.index;
      const absl::Status status = group ? AddLaunches(*fusion, s, memory) : AddCall(node);
      if (!status.ok()) return AtNode(status, graph_.nodes()[node].origin);
    }
    AddUpdates();
    AddOutputs();
    if (absl::Status status = PlaceTemporaries(); !status.ok()) return status;
    GatherLaunches();
    AddReleases();
    return std::move(function_);
  }

 private:
  // --- values ---

  uint32_t NewPlanValue(v1::PlanValue::Storage storage, const TensorType& type) {
    v1::PlanValue* value = function_.add_values();
    value->set_storage(storage);
    value->set_dtype(static_cast<v1::DType>(type.dtype));
    value->set_device(static_cast<v1::DeviceType>(type.device));
    table_.Write(std::span<const Sym>(type.sizes), value->mutable_sizes());
    table_.Write(std::span<const Sym>(type.strides), value->mutable_strides());
    const bool own = storage == v1::PlanValue::TENSOR || storage == v1::PlanValue::EXTERNAL ||
                     (storage == v1::PlanValue::INPUT && options_.inputs_die);
    bytes_.push_back(own ? BytesAtSomeSize(type) : 0);
    return static_cast<uint32_t>(function_.values_size() - 1);
  }

  int64_t BytesAtSomeSize(const TensorType& type) {
    const auto value = [](Var) { return std::optional<int64_t>(kSomeSize); };
    constexpr int64_t kMost = int64_t{1} << 40;  // sums stay in range
    const absl::StatusOr<int64_t> elements = syms_.Eval(StorageSize(syms_, type), value);
    return std::min(elements.value_or(kMost), kMost) * ByteSize(type.dtype);
  }

  void AddInputs() {
    for (const GraphInput& input : graph_.inputs()) {
      if (input.value == kNoValue) {
        function_.add_inputs()->set_sym(table_(input.sym));
        function_.add_values();  // keeps value ids and argument positions equal
        bytes_.push_back(0);
        continue;
      }
      function_.add_inputs()->set_type(0);
      plan_of_[input.value] = NewPlanValue(v1::PlanValue::INPUT, *graph_.type(input.value));
    }
    for (size_t c = 0; c < graph_.constants().size(); ++c) {
      const ValueId v = graph_.constants()[c].value;
      plan_of_[v] = NewPlanValue(v1::PlanValue::CONSTANT, *graph_.type(v));
      function_.mutable_values(plan_of_[v])->set_base(options_.first_constant + static_cast<uint32_t>(c));
    }
  }

  // The plan's value for a graph value, as a host tensor; adds a view step the first time a view is asked for.
  uint32_t Tensor(ValueId v) {
    if (plan_of_[v] != kUnused) return plan_of_[v];
    const ValueId root = aliases_.root(v);
    const uint32_t base = plan_of_[root];
    const uint32_t view = NewPlanValue(v1::PlanValue::VIEW, *graph_.type(v));
    function_.mutable_values(view)->set_base(base);
    function_.mutable_values(view)->set_offset(table_(aliases_.offset(v)));
    function_.add_steps()->set_view(view);
    return plan_of_[v] = view;
  }

  // --- kernels ---

  absl::Status AddLaunches(const Fusion& fusion, size_t s, HostMemory& memory) {
    const FusedStep& step = fusion.order[s];
    absl::StatusOr<LoweredStep> lowered = Lower(fusion, step, memory.During(s));
    if (!lowered.ok()) return lowered.status();
    memory.Note(lowered->reuse);
    for (const Reuse& pair : lowered->reuse) plan_of_[pair.result] = plan_of_[pair.dying];
    const std::span<const Group> groups = std::span(fusion.groups).subspan(step.index, step.count);
    for (const Group& group : groups) {
      for (const ValueId v : group.outputs) {
        if (plan_of_[v] == kUnused) AllocateOutput(v, memory.IsTensor(v));
      }
    }
    const auto first_partial = static_cast<uint32_t>(partials_.size());
    for (const LoweredGroup::Partial& partial : lowered->partials) partials_.push_back(AllocatePartial(partial));
    const uint32_t origin = graph_.nodes()[groups.front().nodes.front().node].origin;
    for (LoweredKernel& kernel : lowered->kernels) {
      for (KernelBuffer& buffer : kernel.buffers) {
        if (buffer.root == kNoValue) buffer.partial += first_partial;
      }
      AddLaunch(kernel, origin);
    }
    return absl::OkStatus();
  }

  void AddLaunch(const LoweredKernel& kernel, uint32_t origin) {
    v1::Launch* launch = function_.add_steps()->mutable_launch();
    launch->set_kernel(pool_.Add(kernel.kernel));
    for (const KernelBuffer& buffer : kernel.buffers) {
      launch->add_buffers(buffer.root != kNoValue ? plan_of_[buffer.root] : partials_[buffer.partial]);
    }
    table_.Write(std::span<const Sym>(kernel.sizes), launch->mutable_sizes());
    launch->set_extent(table_(kernel.extent));
    launch->set_grain(table_(kernel.grain));
    launch->set_origin(origin);
  }

  absl::StatusOr<LoweredStep> Lower(const Fusion& fusion, const FusedStep& step, const MayReuse& may_reuse) {
    if (absl::Status status = run_.Begin("lower"); !status.ok()) return status;
    absl::StatusOr<LoweredStep> lowered = LowerStep(graph_, aliases_, fusion, step, options_.target, may_reuse);
    if (!lowered.ok()) return PassRun::Named("lower", lowered.status());
    run_.End("lower");
    for (const LoweredKernel& kernel : lowered->kernels) {
      if (run_.ShouldDump("lower")) run_.Dump("lower", "loop", loop::ToText(kernel.kernel));
      if (!context_.debug.verify) continue;
      if (absl::Status status = ReadsBack(kernel.kernel); !status.ok()) return PassRun::Named("lower", status);
    }
    return lowered;
  }

  static absl::Status ReadsBack(const loop::Kernel& kernel) {
    const std::string text = loop::ToText(kernel);
    absl::StatusOr<loop::Kernel> again = loop::ParseKernel(text);
    if (!again.ok())
      return absl::InternalError(absl::StrCat("does not read back: ", std::string(again.status().message())));
    return loop::ToText(*again) == text ? absl::OkStatus()
                                        : absl::InternalError("reads back as another kernel:\n" + text);
  }

  void AllocateOutput(ValueId v, bool tensor) {
    plan_of_[v] = NewPlanValue(tensor ? v1::PlanValue::TENSOR : v1::PlanValue::WORKSPACE, *graph_.type(v));
    if (tensor) {
      function_.add_steps()->set_allocate(plan_of_[v]);
    } else {
      AddTemporary(plan_of_[v], *graph_.type(v));
    }
  }

  uint32_t AllocatePartial(const LoweredGroup::Partial& partial) {
    const TensorType type{
        .dtype = partial.dtype, .device = graph_.device(), .sizes = {partial.elements}, .strides = {syms_.Const(1)}};
    const uint32_t value = NewPlanValue(v1::PlanValue::WORKSPACE, type);
    AddTemporary(value, type);
    return value;
  }

  void AddTemporary(uint32_t value, const TensorType& type) {
    temporaries_.push_back({value, syms_.Mul(StorageSize(syms_, type), syms_.Const(ByteSize(type.dtype)))});
  }

  // --- external calls ---

  absl::Status AddCall(NodeId n) {
    const Node& node = graph_.nodes()[n];
    v1::External call;
    absl::Status status =
        DescribeCall(graph_, node, [&](ValueId v) { return Tensor(v); }, [&](Sym s) { return table_(s); }, call);
    if (!status.ok()) return status;
    for (uint32_t r = 0; r < node.num_results; ++r) {
      const ValueId v = node.first_result + r;
      if (graph_.type(v) != nullptr) plan_of_[v] = NewPlanValue(v1::PlanValue::EXTERNAL, *graph_.type(v));
      call.add_results(graph_.type(v) != nullptr ? plan_of_[v] : kUnused);
    }
    *function_.add_steps()->mutable_external() = std::move(call);
    return absl::OkStatus();
  }

  // --- the end of the call ---

  // All reads of the inputs' old contents come before: these are the last steps.
  void AddUpdates() {
    absl::flat_hash_set<ValueId> updated;
    for (const GraphUpdate& update : graph_.updates()) updated.insert(graph_.inputs()[update.input].value);
    std::vector<uint32_t> from;
    for (const GraphUpdate& update : graph_.updates()) from.push_back(NotUpdated(update.value, updated));
    for (size_t i = 0; i < graph_.updates().size(); ++i) {
      if (from[i] == graph_.updates()[i].input) continue;  // its kernel has written it where it stands
      v1::Step::Copy* copy = function_.add_steps()->mutable_copy();
      copy->set_to(graph_.updates()[i].input);
      copy->set_from(from[i]);
    }
  }

  // The tensor to update an input from: a copy of it where it is itself (a view of) an input that is updated.
  uint32_t NotUpdated(ValueId v, const absl::flat_hash_set<ValueId>& updated) {
    const uint32_t tensor = Tensor(v);
    if (!updated.contains(aliases_.root(v))) return tensor;
    const uint32_t copy = NewPlanValue(v1::PlanValue::TENSOR, *graph_.type(v));
    function_.add_steps()->set_allocate(copy);
    v1::Step::Copy* step = function_.add_steps()->mutable_copy();
    step->set_to(copy);
    step->set_from(tensor);
    return copy;
  }

  void AddOutputs() {
    for (const GraphOutput& out : graph_.outputs()) {
      v1::PlanOutput output;
      switch (out.kind) {
        case GraphOutput::Kind::kValue:
          output.set_value(Tensor(out.value));
          break;
        case GraphOutput::Kind::kSym:
          output.set_sym(table_(out.sym));
          break;
        case GraphOutput::Kind::kNone:
          output.mutable_none();
          break;
      }
      *function_.add_outputs() = std::move(output);
    }
  }

  // --- memory ---

  // Calls f(value) for each plan value that a step touches.
  template <typename F>
  void ForEachUse(const v1::Step& step, F&& f) const {
    switch (step.kind_case()) {
      case v1::Step::kAllocate:
        f(step.allocate());
        break;
      case v1::Step::kLaunch:
        for (const uint32_t v : step.launch().buffers()) f(v);
        break;
      case v1::Step::kExternal:
        for (const v1::Arg& arg : step.external().args()) {
          if (arg.kind_case() == v1::Arg::kValue) f(arg.value());
          for (const v1::Arg& item : arg.list().items()) {
            if (item.kind_case() == v1::Arg::kValue) f(item.value());
          }
        }
        for (const uint32_t v : step.external().results()) {
          if (v != kUnused) f(v);
        }
        break;
      case v1::Step::kView:
        f(step.view());
        f(function_.values(step.view()).base());
        break;
      case v1::Step::kCopy:
        f(step.copy().to());
        f(step.copy().from());
        break;
      default:
        break;
    }
  }

  struct Life {
    uint32_t first = kUnused, last = 0;
  };
  std::vector<Life> Lives() const {
    std::vector<Life> lives(function_.values_size());
    for (int s = 0; s < function_.steps_size(); ++s) {
      ForEachUse(function_.steps(s), [&](uint32_t v) {
        lives[v].first = std::min(lives[v].first, static_cast<uint32_t>(s));
        lives[v].last = static_cast<uint32_t>(s);
      });
    }
    return lives;
  }

  absl::Status PlaceTemporaries() {
    const std::vector<Life> lives = Lives();
    std::vector<Temporary> temporaries;
    for (const auto& [value, bytes] : temporaries_)
      temporaries.push_back({bytes, lives[value].first, lives[value].last});
    const WorkspacePlan plan = PlanWorkspace(syms_, temporaries);
    for (size_t t = 0; t < temporaries_.size(); ++t) {
      function_.mutable_values(temporaries_[t].first)->set_offset(table_(plan.offsets[t]));
    }
    function_.set_workspace(table_(plan.bytes));
    if (!context_.debug.verify) return absl::OkStatus();
    const auto some_size = [](Var) { return std::optional<int64_t>(kSomeSize); };
    const absl::Status status = CheckWorkspace(syms_, temporaries, plan, some_size);
    return status.ok() ? status : PassRun::Named("memory", status);
  }

  // Host tensors by the step of their last use, after which they are given back; so the peak is what the graph needs.
  std::vector<std::vector<uint32_t>> Dying() const {
    const std::vector<Life> lives = Lives();
    absl::flat_hash_set<uint32_t> kept;
    for (const v1::PlanOutput& out : function_.outputs()) {
      if (out.kind_case() == v1::PlanOutput::kValue) kept.insert(out.value());
    }
    std::vector<std::vector<uint32_t>> dying(function_.steps_size());
    for (uint32_t v = 0; v < lives.size(); ++v) {
      const v1::PlanValue::Storage storage = function_.values(v).storage();
      const bool held = storage == v1::PlanValue::INPUT || storage == v1::PlanValue::TENSOR ||
                        storage == v1::PlanValue::VIEW || storage == v1::PlanValue::EXTERNAL;
      if (held && lives[v].first != kUnused && !kept.contains(v)) dying[lives[v].last].push_back(v);
    }
    return dying;
  }

  // What is allocated between launches is allocated before the first of them, if hardly more lives then than ever does
  // anyway: so launches follow each other, and the host enters its threads once for all of them.
  void GatherLaunches() {
    const std::vector<std::vector<uint32_t>> dying = Dying();
    const int64_t most = MostAlive(dying);
    google::protobuf::RepeatedPtrField<v1::Step> steps;
    steps.Swap(function_.mutable_steps());
    std::vector<v1::Step*> launches;
    int64_t alive = InputBytes(), dead = 0;  // before the launches; of that, what is not needed after them
    const auto flush = [&] {
      for (v1::Step* launch : launches) *function_.add_steps() = std::move(*launch);
      launches.clear();
      alive -= std::exchange(dead, 0);
    };
    for (int s = 0; s < steps.size(); ++s) {
      const int64_t born = BornBytes(steps[s]);
      if (steps[s].has_launch()) {
        launches.push_back(&steps[s]);
      } else {
        const bool before = steps[s].has_allocate() && (dead == 0 || alive + born <= most + most / kPeakShare);
        if (!before) flush();
        *function_.add_steps() = std::move(steps[s]);
      }
      alive += born;
      for (const uint32_t v : dying[s]) dead += bytes_[v];
    }
    flush();
  }

  int64_t InputBytes() const {
    int64_t bytes = 0;
    for (int v = 0; v < function_.values_size(); ++v) {
      if (function_.values(v).storage() == v1::PlanValue::INPUT) bytes += bytes_[v];
    }
    return bytes;
  }

  // Of the host tensors that a step makes.
  int64_t BornBytes(const v1::Step& step) const {
    int64_t bytes = step.has_allocate() ? bytes_[step.allocate()] : 0;
    for (const uint32_t v : step.external().results()) bytes += v == kUnused ? 0 : bytes_[v];
    return bytes;
  }

  int64_t MostAlive(const std::vector<std::vector<uint32_t>>& dying) const {
    int64_t alive = InputBytes(), most = alive;
    for (int s = 0; s < function_.steps_size(); ++s) {
      alive += BornBytes(function_.steps(s));
      most = std::max(most, alive);
      for (const uint32_t v : dying[s]) alive -= bytes_[v];
    }
    return most;
  }

  // Between launches that follow each other nothing is given back.
  void AddReleases() {
    const std::vector<std::vector<uint32_t>> dying = Dying();
    google::protobuf::RepeatedPtrField<v1::Step> steps;
    steps.Swap(function_.mutable_steps());
    v1::Step::Release release;
    for (int s = 0; s < steps.size(); ++s) {
      const bool launch = steps[s].has_launch();
      *function_.add_steps() = std::move(steps[s]);
      for (const uint32_t v : dying[s]) release.add_values(v);
      if (s + 1 == steps.size() || release.values().empty() || (launch && steps[s + 1].has_launch())) continue;
      *function_.add_steps()->mutable_release() = std::exchange(release, {});
    }
  }

  const Graph& graph_;
  SymContext& syms_;
  const FunctionOptions& options_;
  const PassContext& context_;
  PassRun run_;
  KernelPool& pool_;
  const Aliases aliases_;
  v1::Function function_;
  SymTableWriter table_;
  std::vector<uint32_t> plan_of_;                      // plan value of each graph value
  std::vector<std::pair<uint32_t, Sym>> temporaries_;  // plan values in the workspace, and their bytes
  std::vector<int64_t> bytes_;                         // of each plan value that may be given back
  std::vector<uint32_t> partials_;                     // plan values of all partial results
};

}  // namespace

absl::StatusOr<v1::Function> BuildFunction(const Graph& graph, const FunctionOptions& options,
                                           const PassContext& context, KernelPool& pool) {
  return FunctionBuilder(graph, options, context, pool).Build();
}

}  // namespace kiln
