// Register and memory types of loop values.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "compiler/codegen/emit.h"
#include "compiler/graph/type.h"

namespace kiln::codegen {

// What the emission of one operation needs.
struct EmitContext {
  llvm::IRBuilderBase& b;
  const EmitTarget& target;
  llvm::Module& module;
};

// One lane in a register: bool is i1; f16, bf16 and float8 are their bits, because arithmetic is never done in them.
llvm::Type* RegisterType(llvm::LLVMContext& context, DType type);
// One element in memory: as in a register, but a bool takes one byte, of which any nonzero value is true.
llvm::Type* MemoryType(llvm::LLVMContext& context, DType type);

// <lanes x element>; the element itself for one lane.
llvm::Type* WithLanes(llvm::Type* element, unsigned lanes);
unsigned LanesOf(const llvm::Value* value);
// The type `element` with as many lanes as `like`.
llvm::Type* TypeLike(llvm::Type* element, const llvm::Value* like);

// `scalar` in each of `lanes` lanes; `scalar` itself for one.
llvm::Value* Splat(llvm::IRBuilderBase& b, llvm::Value* scalar, unsigned lanes);
// The constant <0, step, 2*step, …> of i64 or i32.
llvm::Constant* Iota(llvm::Type* element, unsigned lanes, int64_t step = 1);

// Memory to register and back.
llvm::Value* FromMemory(llvm::IRBuilderBase& b, DType type, llvm::Value* value);
llvm::Value* ToMemory(llvm::IRBuilderBase& b, DType type, llvm::Value* value);

// A constant whose bits are in the form of loop::Let::imm.
llvm::Constant* ConstantBits(llvm::LLVMContext& context, DType type, uint64_t bits);

}  // namespace kiln::codegen
