#include "compiler/codegen/emit_alias.h"

#include <llvm/IR/MDBuilder.h>

#include <optional>

namespace kiln::codegen {
namespace {

// Pairs of buffers beyond this are left to LLVM: the lists would be quadratic in the number of buffers.
constexpr size_t kMaxPairs = 4096;

// The one index by which a buffer is loaded or stored, unless there are several.
class OneIndex {
 public:
  void Add(Sym index) {
    several_ |= index_.has_value() && *index_ != index;
    index_ = index;
  }
  bool SameAs(const OneIndex& other) const { return !several_ && !other.several_ && index_ == other.index_; }

 private:
  std::optional<Sym> index_;
  bool several_ = false;
};

struct Indices {
  std::vector<OneIndex> loads, stores;  // by buffer
};

void Collect(const loop::Block& block, Indices& indices) {
  for (const loop::Stmt& stmt : block) {
    if (const auto* let = std::get_if<loop::Let>(&stmt.node)) {
      if (let->op == loop::Op::kLoad) indices.loads[let->buffer].Add(let->index);
    } else if (const auto* store = std::get_if<loop::Store>(&stmt.node)) {
      indices.stores[store->buffer].Add(store->index);
    } else if (const auto* loop = std::get_if<loop::For>(&stmt.node)) {
      Collect(loop->body, indices);
    } else if (const auto* reduce = std::get_if<loop::Reduce>(&stmt.node)) {
      Collect(reduce->body, indices);
    }
  }
}

}  // namespace

AliasInfo::AliasInfo(const loop::Kernel& kernel, llvm::LLVMContext& context)
    : no_alias_(kernel.buffers.size()), scope_(kernel.buffers.size()) {
  Indices indices{std::vector<OneIndex>(kernel.buffers.size()), std::vector<OneIndex>(kernel.buffers.size())};
  Collect(kernel.body, indices);
  std::vector<loop::BufferId> read, written;
  for (loop::BufferId id = 0; id < kernel.buffers.size(); ++id) {
    if (kernel.buffers[id].space != loop::Space::kGlobal) continue;
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
      const bool same_size = ByteSize(kernel.buffers[id].dtype) == ByteSize(kernel.buffers[other].dtype);
      if (!same_size || !indices.loads[id].SameAs(indices.stores[other])) independent.push_back(scopes[other]);
    }
    if (!independent.empty()) no_alias_[id] = llvm::MDNode::get(context, independent);
  }
}

void AliasInfo::TagLoad(loop::BufferId buffer, llvm::Instruction* load) const {
  if (no_alias_[buffer] != nullptr) load->setMetadata(llvm::LLVMContext::MD_noalias, no_alias_[buffer]);
}

void AliasInfo::TagStore(loop::BufferId buffer, llvm::Instruction* store) const {
  if (scope_[buffer] != nullptr) store->setMetadata(llvm::LLVMContext::MD_alias_scope, scope_[buffer]);
}

}  // namespace kiln::codegen
