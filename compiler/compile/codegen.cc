#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/cpu/link.h"
#include "compiler/codegen/cpu/object.h"
#include "compiler/codegen/cuda/machine.h"
#include "compiler/codegen/cuda/ptx.h"
#include "compiler/compile/compile.h"
#include "compiler/debug/debug.h"
#include "compiler/loop/simplify.h"
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

// Without mathlib's functions, but for those that `keep` says yes to.
absl::StatusOr<loop::Kernel> ReadKernel(const v1::KernelSource& source, const std::function<bool(loop::Op)>& keep,
                                        StageTimes* times) {
  const StageTimer timer(times, "parse");
  absl::StatusOr<loop::Kernel> kernel = loop::ParseKernel(source.text());
  if (!kernel.ok()) return kernel.status();
  if (absl::Status status = loop::Verify(*kernel); !status.ok()) return status;
  if (absl::Status status = mathlib::Expand(*kernel, keep); !status.ok()) return status;
  return kernel;
}

absl::StatusOr<std::string> GenerateObject(const v1::CodegenJob& job, StageTimes* times) {
  absl::StatusOr<loop::Kernel> kernel = ReadKernel(job.kernel(), nullptr, times);
  if (!kernel.ok()) return kernel.status();
  return CompileObject(*kernel, job.kernel().symbol(), job.target(), times);
}

absl::StatusOr<std::string> GeneratePtx(const v1::CodegenJob& job, StageTimes* times) {
  const bool has_libdevice = !job.libdevice().empty();
  const auto keep = [&](loop::Op op) { return has_libdevice && LibdeviceHas(op); };
  absl::StatusOr<loop::Kernel> kernel = ReadKernel(job.kernel(), keep, times);
  if (!kernel.ok()) return kernel.status();
  loop::Simplify(*kernel);
  const StageTimer timer(times, "llvm");
  return CompilePtx(*kernel, job.kernel().symbol(), job.target(), job.libdevice());
}

}  // namespace

absl::StatusOr<v1::CodegenResult> Codegen(const v1::CodegenJob& job) {
  StageTimes times;
  StageTimes* const timed = DebugFromEnvironment().time ? &times : nullptr;
  const bool on_gpu = FindCudaTarget(job.target()) != nullptr;
  absl::StatusOr<std::string> object = on_gpu ? GeneratePtx(job, timed) : GenerateObject(job, timed);
  if (!object.ok()) return object.status();
  v1::CodegenResult result;
  result.set_object(*std::move(object));
  WriteTimes(times, *result.mutable_times());
  return result;
}

absl::StatusOr<v1::LinkResult> Link(const v1::LinkJob& job) {
  v1::LinkResult result;
  if (FindCudaTarget(job.target()) != nullptr) {
    v1::CudaCode code;
    *code.mutable_modules() = job.objects();
    result.set_shared_object(code.SerializeAsString());
    return result;
  }
  const std::vector<std::string> objects(job.objects().begin(), job.objects().end());
  const std::vector<std::string> symbols(job.symbols().begin(), job.symbols().end());
  absl::StatusOr<std::string> shared = LinkShared(objects, symbols);
  if (!shared.ok()) return shared.status();
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
  link.set_target(request.target().name());
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
