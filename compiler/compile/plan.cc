#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compiler/artifact/abi.h"
#include "compiler/compile/compile.h"
#include "compiler/compile/function.h"
#include "compiler/compile/functions.h"
#include "compiler/compile/kernels.h"
#include "compiler/debug/debug.h"
#include "compiler/import/import.h"
#include "compiler/options/options.h"

namespace kiln {
namespace {

class Planner {
 public:
  Planner(const v1::PlanJob& job, const CompileContext& context)
      : request_(job.request()), context_(context), pool_(request_.target().name(), job.build()) {
    artifact_ = result_.mutable_artifact();
    artifact_->set_version(kArtifactVersion);
    *artifact_->mutable_target() = request_.target();
    artifact_->set_build(job.build());
  }

  absl::StatusOr<v1::PlanResult> Run() {
    const std::optional<ScheduleTarget> target = FindScheduleTarget(request_.target().name());
    if (!target) {
      return absl::InvalidArgumentError(absl::StrCat("target.name: unknown target \"", request_.target().name(), "\""));
    }
    options_.target = *target;
    absl::StatusOr<Options> options = ImportOptions(request_.options());
    if (!options.ok()) return options.status();
    passes_.options = *options;
    passes_.debug = DebugFromEnvironment();
    passes_.cancelled = context_.cancelled;
    passes_.times = &times_;
    absl::StatusOr<std::shared_ptr<const Graph>> graph = Import();
    if (!graph.ok()) return graph.status();
    if (target->on_gpu() != ((*graph)->device() == DeviceType::kCuda)) {
      return absl::InvalidArgumentError(absl::StrCat("target.name: ", request_.target().name(), " for a graph on ",
                                                     std::string(Name((*graph)->device()))));
    }
    absl::StatusOr<GraphFunctions> functions =
        MakeFunctions(*std::move(graph), passes_, StaticInputs(request_.guards()));
    if (!functions.ok()) return functions.status();
    if (absl::Status status = Sign(*functions); !status.ok()) return status;
    for (const NamedGraph& function : functions->functions) {
      if (absl::Status status = AddFunction(function); !status.ok()) return status;
    }
    for (const v1::KernelSource& kernel : pool_.kernels()) {
      v1::KernelRef* ref = artifact_->add_kernels();
      ref->set_symbol(kernel.symbol());
      ref->set_key(kernel.key());
      ref->set_threads(kernel.threads());
      *result_.add_kernels() = kernel;
    }
    if (passes_.debug.time) WriteTimes(times_, *result_.mutable_times());
    return std::move(result_);
  }

 private:
  absl::StatusOr<std::shared_ptr<const Graph>> Import() {
    const StageTimer timer(&times_, "import");
    return ImportGraph(request_.graph());
  }

  absl::Status Sign(const GraphFunctions& made) {
    const Graph& request = *made.request;
    const bool joint = request.level() == GraphLevel::kJoint;
    v1::PlanSignature* signature = artifact_->mutable_signature();
    signature->set_num_inputs(joint ? request.num_primals() : static_cast<uint32_t>(request.inputs().size()));
    signature->set_num_forward_outputs(joint ? request.num_forward_outputs()
                                             : static_cast<uint32_t>(request.outputs().size()));
    for (const ClientValue& saved : made.saved_as) {
      signature->add_saved_values(saved.value);
      signature->add_saved_dtypes(saved.dtype ? static_cast<v1::DType>(*saved.dtype) : v1::DTYPE_UNSPECIFIED);
    }
    for (const GraphUpdate& update : made.functions.front().graph->updates())
      signature->add_mutated_inputs(update.input);
    return SaveSyms(request, made.saved.syms);
  }

  // The client knows a saved size by its expression in the request's own table.
  absl::Status SaveSyms(const Graph& joint, std::span<const Sym> syms) {
    const v1::SymTable& table = request_.graph().syms();
    absl::flat_hash_map<int64_t, uint32_t> expr_of;  // by symbol: the first expression that is it
    for (int i = 0; i < table.exprs_size(); ++i) {
      if (table.exprs(i).op() == v1::SymExpr::SYMBOL)
        expr_of.try_emplace(table.exprs(i).value(), static_cast<uint32_t>(i));
    }
    for (const Sym s : syms) {
      const std::optional<Var> var = joint.syms().AsVar(s);
      const auto expr = var ? expr_of.find(var->index) : expr_of.end();
      if (expr == expr_of.end()) return absl::InternalError("a saved size is no symbol of the request's table");
      artifact_->mutable_signature()->add_saved_syms(expr->second);
    }
    return absl::OkStatus();
  }

  absl::Status AddFunction(const NamedGraph& made) {
    passes_.subject = made.name;
    options_.inputs_die = made.inputs_die;
    options_.first_constant = static_cast<uint32_t>(artifact_->constants_size());
    for (const GraphConstant& constant : made.graph->constants()) artifact_->add_constants()->set_data(constant.data);
    absl::StatusOr<v1::Function> function = BuildFunction(*made.graph, options_, passes_, pool_);
    if (!function.ok()) return function.status();
    *artifact_->add_functions() = *std::move(function);
    return absl::OkStatus();
  }

  const v1::CompileRequest& request_;
  const CompileContext& context_;
  KernelPool pool_;
  v1::PlanResult result_;
  v1::Artifact* artifact_ = nullptr;
  FunctionOptions options_;
  PassContext passes_;
  StageTimes times_;
};

}  // namespace

absl::StatusOr<v1::PlanResult> Plan(const v1::PlanJob& job, const CompileContext& context) {
  return Planner(job, context).Run();
}

}  // namespace kiln
