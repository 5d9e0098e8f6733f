#include "compiler/codegen/cpu/mathlib_kernel.h"

#include "compiler/loop/builder.h"
#include "compiler/mathlib/expand.h"

namespace kiln {

const char* BestTarget() { return HostRuns("x86-64-v4") ? "x86-64-v4" : "x86-64-v3"; }

absl::StatusOr<MathlibKernel> MathlibKernel::Compile(loop::Op op, DType type) {
  loop::Kernel kernel;
  kernel.num_sizes = 1;
  const Sym size = kernel.syms->Size(0);
  for (const loop::Access access : {loop::Access::kRead, loop::Access::kRead, loop::Access::kWrite}) {
    kernel.buffers.push_back({type, size, loop::Space::kGlobal, access});
  }
  loop::Builder b(kernel, kernel.body);
  b.BeginFor(loop::AxisKind::kParallel, kernel.syms->Const(1), 1, kernel.syms->Const(1));
  const Sym i = b.BeginFor(loop::AxisKind::kVector, size, 64 / ByteSize(type));
  const loop::ValueId args[] = {b.Load(0, i), b.Load(1, i)};
  b.Store(2, i, b.Apply(op, std::span(args, static_cast<size_t>(loop::Arity(op)))));
  b.EndFor();
  b.EndFor();
  if (!b.status().ok()) return b.status();
  if (absl::Status status = mathlib::Expand(kernel); !status.ok()) return status;
  absl::StatusOr<NativeKernel> native = NativeKernel::Compile(kernel, BestTarget());
  if (!native.ok()) return native.status();
  return MathlibKernel(*std::move(native));
}

void MathlibKernel::Run(const void* x, const void* y, void* result, int64_t count) const {
  void* buffers[] = {const_cast<void*>(x), const_cast<void*>(y), result};
  int64_t error = 0;
  kernel_.function()(buffers, &count, 0, 1, &error);
}

}  // namespace kiln
