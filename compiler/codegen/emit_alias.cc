#include "compiler/codegen/emit_alias.h"

#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <limits>

namespace kiln::codegen {
namespace {

// Pairs of buffers beyond this are left to LLVM: the lists would be quadratic in the number of buffers.
constexpr size_t kMaxPairs = 4096;

struct Ranks {
  size_t most_in_a_load = 0;
  size_t least_in_a_store = std::numeric_limits<size_t>::max();
};

// Variables that run during a call.
size_t Rank(const SymContext& syms, Sym index) {
  const std::vector<Var> variables = syms.Variables(index);
  return static_cast<size_t>(
      std::count_if(variables.begin(), variables.end(), [](Var var) { return var.kind != VarKind::kSize; }));
}

void Collect(const SymContext& syms, const loop::Block& block, std::vector<Ranks>& ranks) {
  for (const loop::Stmt& stmt : block) {
    if (const auto* let = std::get_if<loop::Let>(&stmt.node)) {
      if (let->op != loop::Op::kLoad) continue;
      size_t& most = ranks[let->buffer].most_in_a_load;
      most = std::max(most, Rank(syms, let->index));
    } else if (const auto* store = std::get_if<loop::Store>(&stmt.node)) {
      size_t& least = ranks[store->buffer].least_in_a_store;
      least = std::min(least, Rank(syms, store->index));
    } else if (const auto* loop = std::get_if<loop::For>(&stmt.node)) {
      Collect(syms, loop->body, ranks);
    } else if (const auto* reduce = std::get_if<loop::Reduce>(&stmt.node)) {
      Collect(syms, reduce->body, ranks);
    }
  }
}

}  // namespace

AliasInfo::AliasInfo(const loop::Kernel& kernel, bool simt, llvm::LLVMContext& context)
    : invariant_(kernel.buffers.size()), no_alias_(kernel.buffers.size()), scope_(kernel.buffers.size()) {
  std::vector<Ranks> ranks(kernel.buffers.size());
  Collect(*kernel.syms, kernel.body, ranks);
  std::vector<loop::BufferId> read, written;
  for (loop::BufferId id = 0; id < kernel.buffers.size(); ++id) {
    if (kernel.buffers[id].space != loop::Space::kGlobal) continue;
    if (simt && kernel.buffers[id].access == loop::Access::kRead) invariant_[id] = llvm::MDNode::get(context, {});
    (kernel.buffers[id].access == loop::Access::kRead ? read : written).push_back(id);
  }
  if (read.size() * written.size() > kMaxPairs) return;

  llvm::MDBuilder md(context);
  llvm::MDNode* domain = md.createAnonymousAliasScopeDomain("buffers");
  std::vector<llvm::MDNode*> scopes(kernel.buffers.size());
  for (const loop::BufferId id : written) {
    scopes[id] = md.createAnonymousAliasScope(domain);
    scope_[id] = llvm::MDNode::get(context, {scopes[id]});
  }
  for (const loop::BufferId id : read) {
    llvm::SmallVector<llvm::Metadata*, 8> independent;
    for (const loop::BufferId other : written) {
      if (ranks[id].most_in_a_load < ranks[other].least_in_a_store) independent.push_back(scopes[other]);
    }
    if (!independent.empty()) no_alias_[id] = llvm::MDNode::get(context, independent);
  }
}

void AliasInfo::TagLoad(loop::BufferId buffer, llvm::Instruction* load) const {
  if (invariant_[buffer] != nullptr) load->setMetadata(llvm::LLVMContext::MD_invariant_load, invariant_[buffer]);
  if (no_alias_[buffer] != nullptr) load->setMetadata(llvm::LLVMContext::MD_noalias, no_alias_[buffer]);
}

void AliasInfo::TagStore(loop::BufferId buffer, llvm::Instruction* store) const {
  if (scope_[buffer] != nullptr) store->setMetadata(llvm::LLVMContext::MD_alias_scope, scope_[buffer]);
}

}  // namespace kiln::codegen
