// kilnd: the daemon of kilnd_main.h with kiln's own compiler.
#include "absl/status/status.h"
#include "compiler/compile/compile.h"
#include "compiler/compile/inventory.h"
#include "compiler/graph/node_status.h"
#include "server/assemble.h"
#include "server/kilnd_main.h"

namespace kiln {
namespace {

v1::OpInfo ToProto(const OperatorInfo& info) {
  v1::OpInfo op;
  op.set_name(info.record.name);
  op.set_schema(info.record.schema);
  *op.mutable_torch() = {info.record.torch.begin(), info.record.torch.end()};
  op.set_kind(info.record.kind);
  op.set_gradient(info.record.gradient);
  if (info.record.budget) {
    op.mutable_budget()->set_ulp(info.record.budget->ulp);
    op.mutable_budget()->set_floor(info.record.budget->floor);
    op.mutable_budget()->set_result_ulp(info.record.budget->result_ulp);
  }
  for (const FunctionInfo& f : info.functions) {
    v1::OpInfo::Function* function = op.add_functions();
    function->set_name(f.name);
    function->set_f32_budget(f.f32_budget);
    function->set_f32_measured(f.f32_measured);
    function->set_f64_budget(f.f64_budget);
    function->set_f64_measured(f.f64_measured);
    function->set_exhaustive(f.exhaustive);
  }
  return op;
}

Compiler RealCompiler() {
  Compiler compiler;
  compiler.jobs = {[](const v1::PlanJob& job) { return Plan(job); }, Codegen, Link, Assemble, NodeOf};
  compiler.targets = Targets();
  compiler.assemble_for = AssembleFor;
  compiler.ops = [] {
    std::vector<v1::OpInfo> ops;
    for (const OperatorInfo& info : Operators()) ops.push_back(ToProto(info));
    return ops;
  };
  return compiler;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::KilndMain(argc, argv, kiln::RealCompiler()); }
