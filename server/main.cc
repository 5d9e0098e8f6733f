// kilnd: the daemon of kilnd_main.h with kiln's own compiler.
#include "absl/status/status.h"
#include "compiler/compile/compile.h"
#include "compiler/compile/inventory.h"
#include "compiler/graph/node_status.h"
#include "server/kilnd_main.h"

namespace kiln {
namespace {

Compiler RealCompiler() {
  Compiler compiler;
  compiler.jobs = {[](const v1::PlanJob& job) { return Plan(job); }, Codegen, Link, NodeOf};
  compiler.targets = Targets();
  compiler.ops = [] {
    std::vector<v1::OpInfo> ops;
    for (OpInfo& info : Operators()) {
      v1::OpInfo& op = ops.emplace_back();
      op.set_name(std::move(info.name));
      op.set_schema(std::move(info.schema));
      for (std::string& overload : info.torch) op.add_torch(std::move(overload));
      op.set_kind(std::move(info.kind));
      op.set_gradient(std::move(info.gradient));
    }
    return ops;
  };
  return compiler;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::KilndMain(argc, argv, kiln::RealCompiler()); }
