// Which accesses LLVM may take for independent.
#pragma once

#include <llvm/IR/Instruction.h>
#include <llvm/IR/Metadata.h>

#include <vector>

#include "compiler/loop/ir.h"

namespace kiln::codegen {

// Scoped no-alias metadata for a kernel's buffers, by the storage contract of emit.h: loads of a kRead buffer that name
// fewer axes than the stores to a written one read a smaller tensor, which has a storage of its own. So what is uniform
// leaves inner loops. All other accesses keep their order, but on a GPU (`simt`), where kRead buffers are never written
// while the kernel runs: a thread has loads in flight beyond its own stores.
class AliasInfo {
 public:
  AliasInfo(const loop::Kernel& kernel, bool simt, llvm::LLVMContext& context);

  void TagLoad(loop::BufferId buffer, llvm::Instruction* load) const;
  void TagStore(loop::BufferId buffer, llvm::Instruction* store) const;

 private:
  std::vector<llvm::MDNode*> invariant_;  // by buffer: an empty node where memory does not change, or null
  std::vector<llvm::MDNode*> no_alias_;  // by buffer: scopes that loads of it are independent of, or null
  std::vector<llvm::MDNode*> scope_;     // by buffer: the scope of stores to it, or null
};

}  // namespace kiln::codegen
