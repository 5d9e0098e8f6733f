// kilnd with FakeJobs for a compiler, which knows three operators.
#include "server/kilnd_main.h"
#include "server/testing/fake_jobs.h"

namespace kiln {
namespace {

v1::OpInfo Op(const char* name, const char* overload, const char* kind, const char* gradient) {
  v1::OpInfo op;
  op.set_name(name);
  op.add_torch(overload);
  op.set_kind(kind);
  op.set_gradient(gradient);
  return op;
}

std::vector<v1::OpInfo> FakeOps() {
  v1::OpInfo exp = Op("exp", "aten.exp.default", "pointwise", "rule");
  exp.mutable_budget()->set_ulp(1.5);
  exp.mutable_budget()->set_result_ulp(0.5);
  v1::OpInfo::Function* function = exp.add_functions();
  function->set_name("exp");
  function->set_f32_budget(1.05);
  function->set_f32_measured(1.025);
  function->set_f64_budget(1.05);
  function->set_f64_measured(0.959);
  function->set_exhaustive(true);
  return {exp, Op("mm", "aten.mm.default", "external", "rule"), Op("sum", "aten.sum.dim_IntList", "reduction", "rule")};
}

std::vector<std::string> AssembleFor(const std::string& target) {
  return target == "sm_90" ? std::vector<std::string>{target} : std::vector<std::string>();
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  return kiln::KilndMain(argc, argv,
                         {.jobs = kiln::FakeJobs(),
                          .targets = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "sm_90"},
                          .assemble_for = kiln::AssembleFor,
                          .ops = kiln::FakeOps});
}
