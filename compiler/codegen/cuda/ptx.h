// One kernel to PTX.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "compiler/loop/ir.h"

namespace kiln {

// PTX with two entries, of which `symbol` takes global buffers of any alignment that their elements allow, and `symbol`
// with kAlignedSuffix those that begin at multiples of kBufferAlignment bytes. Their parameters: a pointer to each
// kGlobal buffer, then an int64 for each size parameter. A bad index is a device-side assertion, as in eager's kernels.
// They run on a grid of as many blocks as the parallel axis has iterations, in one dimension, each of
// loop::BlockThreads(kernel) threads in one dimension; all shared memory is static.
//
// `kernel` is verified, scheduled with kThread axes and shared scratch, and free of mathlib's functions; expressions
// may be interned in its SymContext. InvalidArgument: not a CUDA target, or not a symbol. Unimplemented: see emit.h,
// and more shared memory than kStaticSharedBytes. The same kernel, symbol and target give the same bytes in any
// process. LLVM itself may crash or run for long: for worker processes only. Any thread, in parallel.
//
// `libdevice`: the contents of CUDA's libdevice.10.bc; functions that LibdeviceHas are then called there, and the
// kernel may have them. "": there is none.
absl::StatusOr<std::string> CompilePtx(const loop::Kernel& kernel, std::string_view symbol, std::string_view target,
                                       std::string_view libdevice = "");

bool LibdeviceHas(loop::Op function);

inline constexpr std::string_view kAlignedSuffix = "_aligned";
inline constexpr uint64_t kBufferAlignment = 16;

}  // namespace kiln
