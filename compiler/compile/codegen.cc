#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/cpu/link.h"
#include "compiler/codegen/cpu/object.h"
#include "compiler/compile/compile.h"
#include "compiler/debug/debug.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"
#include "compiler/mathlib/expand.h"

namespace kiln {

void WriteTimes(const StageTimes& times, google::protobuf::RepeatedPtrField<v1::StageTime>& out) {
  for (const auto& [stage, seconds] : times.stages()) {
    v1::StageTime* time = out.Add();
    time->set_stage(stage);
    time->set_seconds(seconds);
  }
}

namespace {

absl::StatusOr<loop::Kernel> ReadKernel(const v1::KernelSource& source, StageTimes* times) {
  const StageTimer timer(times, "parse");
  absl::StatusOr<loop::Kernel> kernel = loop::ParseKernel(source.text());
  if (!kernel.ok()) return kernel.status();
  if (absl::Status status = loop::Verify(*kernel); !status.ok()) return status;
  if (absl::Status status = mathlib::Expand(*kernel); !status.ok()) return status;
  return kernel;
}

}  // namespace

absl::StatusOr<v1::CodegenResult> Codegen(const v1::CodegenJob& job) {
  StageTimes times;
  StageTimes* const timed = DebugFromEnvironment().time ? &times : nullptr;
  absl::StatusOr<loop::Kernel> kernel = ReadKernel(job.kernel(), timed);
  if (!kernel.ok()) return kernel.status();
  absl::StatusOr<std::string> object = CompileObject(*kernel, job.kernel().symbol(), job.target(), timed);
  if (!object.ok()) return object.status();
  v1::CodegenResult result;
  result.set_object(*std::move(object));
  WriteTimes(times, *result.mutable_times());
  return result;
}

absl::StatusOr<v1::LinkResult> Link(const v1::LinkJob& job) {
  const std::vector<std::string> objects(job.objects().begin(), job.objects().end());
  const std::vector<std::string> symbols(job.symbols().begin(), job.symbols().end());
  absl::StatusOr<std::string> shared = LinkShared(objects, symbols);
  if (!shared.ok()) return shared.status();
  v1::LinkResult result;
  result.set_shared_object(*std::move(shared));
  return result;
}

absl::StatusOr<Compiled> Compile(const v1::CompileRequest& request, const std::string& build) {
  v1::PlanJob plan;
  *plan.mutable_request() = request;
  plan.set_build(build);
  absl::StatusOr<v1::PlanResult> planned = Plan(plan);
  if (!planned.ok()) return planned.status();
  Compiled compiled;
  compiled.artifact = std::move(*planned->mutable_artifact());
  v1::LinkJob link;
  for (const v1::KernelSource& kernel : planned->kernels()) {
    v1::CodegenJob job;
    *job.mutable_kernel() = kernel;
    job.set_target(request.target().name());
    absl::StatusOr<v1::CodegenResult> result = Codegen(job);
    if (!result.ok()) return result.status();
    link.add_objects(std::move(*result->mutable_object()));
    link.add_symbols(kernel.symbol());
    compiled.kernels.push_back(kernel);
  }
  if (compiled.kernels.empty()) return compiled;
  absl::StatusOr<v1::LinkResult> linked = Link(link);
  if (!linked.ok()) return linked.status();
  compiled.shared_object = std::move(*linked->mutable_shared_object());
  return compiled;
}

}  // namespace kiln
