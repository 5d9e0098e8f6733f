#include "compiler/compile/inventory.h"

#include <memory>
#include <set>
#include <utility>

#include "compiler/codegen/cpu/machine.h"
#include "compiler/codegen/cuda/machine.h"
#include "compiler/graph/builder.h"
#include "compiler/lower/inline.h"
#include "compiler/mathlib/budgets/budgets.h"
#include "compiler/mathlib/budgets/measured.h"
#include "compiler/ops/named_args.h"
#include "compiler/ops/op_builder.h"
#include "compiler/ops/registry.h"

namespace kiln {
namespace {

// The record's node, applied to f32 tensors of one element and the sample's other arguments; null if that is no call.
std::shared_ptr<const Graph> SampleNode(const OpDef& def, const Sample& sample) {
  GraphBuilder graph(std::make_shared<SymContext>());
  const NamedArgs named(sample.args);
  const Sym one = graph.syms().Const(1);
  std::vector<Arg> args;
  for (const SchemaArg& arg : SchemaOf(def).args) {
    const bool tensor = arg.kind == ArgKind::kTensor || arg.kind == ArgKind::kTensorOrScalar;
    if (tensor && !arg.list && !named.Find(arg.name) && !arg.default_text) {
      args.push_back(Arg{ValueRef{graph.AddInput({.sizes = {one}, .strides = {one}})}});
      continue;
    }
    absl::StatusOr<Arg> value = named.Make(arg, graph.syms());
    if (!value.ok()) return nullptr;
    args.push_back(*std::move(value));
  }
  if (OpBuilder(graph).Add(def, std::move(args)).empty()) return nullptr;
  absl::StatusOr<std::shared_ptr<const Graph>> built = graph.Build();
  return built.ok() ? *std::move(built) : nullptr;
}

std::vector<FunctionInfo> FunctionsOf(const OpDef& def) {
  std::set<loop::Op> functions;
  for (const Sample& sample : def.samples) {
    const std::shared_ptr<const Graph> graph = SampleNode(def, sample);
    if (graph == nullptr || !HasMeaning(Call(*graph, graph->nodes()[0]))) continue;
    for (const loop::Op op : MathFunctions(*graph, graph->nodes()[0])) functions.insert(op);
  }
  std::vector<FunctionInfo> infos;
  for (const loop::Op op : functions) {
    const mathlib::Budget budget = mathlib::BudgetOf(op);
    const mathlib::Measured measured = mathlib::MeasuredOf(op);
    infos.push_back({.name = std::string(loop::Name(op)),
                     .f32_budget = budget.f32,
                     .f32_measured = measured.f32,
                     .f64_budget = budget.f64,
                     .f64_measured = measured.f64,
                     .exhaustive = measured.exhaustive});
  }
  return infos;
}

}  // namespace

std::vector<std::string> Targets() {
  std::vector<std::string> names;
  for (const CpuMachine& machine : kCpuMachines) names.emplace_back(machine.name);
  for (const CudaTarget& target : kCudaTargets) names.emplace_back(target.name);
  return names;
}

std::vector<std::string> AssembleFor(std::string_view target) {
  const CudaTarget* device = FindCudaTarget(target);
  if (device == nullptr) return {};
  std::vector<std::string> archs = {std::string(device->name)};
  if (device->compatible && device->machine->name != device->name) archs.emplace_back(device->machine->name);
  return archs;
}

std::vector<OperatorInfo> Operators() {
  std::vector<OperatorInfo> operators;
  for (OpInfo& record : ListOps()) {
    std::vector<FunctionInfo> functions = FunctionsOf(*FindOp(record.name));
    operators.push_back({std::move(record), std::move(functions)});
  }
  return operators;
}

}  // namespace kiln
