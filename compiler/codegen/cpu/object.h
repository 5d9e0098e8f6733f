// One kernel to one ELF relocatable.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/debug/times.h"
#include "compiler/loop/ir.h"

namespace kiln {

// The object defines one global function, `symbol`, with the signature of artifact/abi.h and the storage contract of
// codegen/emit.h; it needs no other symbol. The same kernel, symbol and target give the same bytes in any process.
//
// `kernel` is verified, scheduled and free of mathlib's functions (mathlib/expand.h); expressions may be interned in
// its SymContext. InvalidArgument: not a CPU target, or not a symbol. Unimplemented: see emit.h. Internal: our bug.
// LLVM itself may crash or run for long; that is why this runs in worker processes only. Any thread, in parallel.
//
// Adds to `times`, if there are any: emit, optimize, assemble.
absl::StatusOr<std::string> CompileObject(const loop::Kernel& kernel, std::string_view symbol, std::string_view target,
                                          StageTimes* times = nullptr);

// The same compilation, for reading: LLVM IR as emitted, or after the passes, and assembly.
enum class LlvmStage { kEmitted, kOptimized };
absl::StatusOr<std::string> LlvmText(const loop::Kernel& kernel, std::string_view symbol, std::string_view target,
                                     LlvmStage stage);
absl::StatusOr<std::string> AssemblyText(const loop::Kernel& kernel, std::string_view symbol, std::string_view target);

// LlvmText after the passes and AssemblyText, with Stmt::origin of the statement that each line comes from: kNone where
// there is none, or several were merged.
struct TracedText {
  std::string text;
  std::vector<uint32_t> origins;  // one a line
};
struct TracedCode {
  TracedText llvm, assembly;
};
absl::StatusOr<TracedCode> TraceCode(const loop::Kernel& kernel, std::string_view symbol, std::string_view target);

}  // namespace kiln
