// Loop IR to LLVM IR: one kernel becomes one function with the signature of artifact/abi.h. What is the same for every
// target is here; a target's machine, passes and file formats are in its own folder (cpu/).
//
// Vectors are explicit: a kVector axis is a main loop over full vectors and one masked tail; inside it a value is
// either uniform (a scalar) or varying (one element a lane). Nothing is left to LLVM's vectorisers.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "compiler/loop/ir.h"

namespace llvm {
class Function;
class Module;
}  // namespace llvm

namespace kiln {

// What the instruction set does by itself. The rest is done by other instructions, never by a call outside the module.
struct EmitTarget {
  bool fma = true;                // llvm.fma is an instruction
  bool half_conversion = true;    // fpext and fptrunc between f16 and f32 are instructions
  bool streaming_stores = false;  // past the caches, of whole lines; ordered by x86's sfence
  bool bfloat_pairs = false;      // NVPTX's fptrunc from f32 to bf16, and cvt.rn.bf16x2.f32 of two lanes
  // A GPU: an iteration of the parallel axis is a block, kThread axes are its threads. The function's parameters are
  // then the buffers and the sizes, each by itself (codegen/cuda/ptx.h). Else kThread has no code.
  bool simt = false;
  // The symbol of a function of mathlib, of f32 or f64, that the module will be linked with; null: there are none.
  std::string (*function_symbol)(loop::Op op, DType type) = nullptr;
  bool aligned_buffers = false;  // global buffers begin at multiples of 16 bytes
  // Smallest element, in bytes, of which vectors are accessed under a mask by instructions; smaller ones, and all if
  // there is none so large, go lane by lane.
  int masked_access_bytes = 1;  // contiguous
  int masked_gather_bytes = 4;  // gather and scatter
};

// Adds the function `symbol` to `module`. `kernel` is verified and free of mathlib's functions; expressions that the
// walk needs are interned in its SymContext. Unimplemented names the operation or axis that has no code here (float8
// arithmetic, GPU axes); Internal means that `kernel` breaks a rule of ir.h.
//
// Storage contract of the function: buffers are apart, but a written buffer may be the whole storage of a kRead one (an
// update in place, as many elements of the same size). Accesses then happen in the order of the kernel's text, which
// the memory plan must have found right. Loads that name fewer axes than the stores read a smaller tensor, and are
// taken to be independent of them. On a GPU kRead buffers share no memory with written ones.
//
// With `origins`, the debug location of what a statement becomes is line Stmt::origin + 1; code is the same without.
absl::StatusOr<llvm::Function*> EmitKernel(const loop::Kernel& kernel, std::string_view symbol,
                                           const EmitTarget& target, llvm::Module& module, bool origins = false);

}  // namespace kiln
