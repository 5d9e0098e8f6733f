#include "compiler/codegen/emit_control.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Function.h>

#include <optional>

namespace kiln::codegen {
namespace {

llvm::BasicBlock* NewBlock(llvm::IRBuilderBase& b, const char* name) {
  return llvm::BasicBlock::Create(b.getContext(), name, b.GetInsertBlock()->getParent());
}

// Iterations, if both bounds are constants.
std::optional<int64_t> TripCount(const llvm::Value* begin, const llvm::Value* end, int64_t step) {
  const auto* from = llvm::dyn_cast<llvm::ConstantInt>(begin);
  const auto* to = llvm::dyn_cast<llvm::ConstantInt>(end);
  if (from == nullptr || to == nullptr) return std::nullopt;
  if (from->getSExtValue() >= to->getSExtValue()) return 0;
  return (to->getSExtValue() - from->getSExtValue() - 1) / step + 1;
}

}  // namespace

Values EmitLoop(llvm::IRBuilderBase& b, llvm::Value* begin, llvm::Value* end, int64_t step, Values carried,
                llvm::function_ref<Values(llvm::Value* i, Values carried)> body) {
  const std::optional<int64_t> trips = TripCount(begin, end, step);
  if (trips == 0) return carried;
  if (trips == 1) return body(begin, std::move(carried));

  llvm::BasicBlock* guard = b.GetInsertBlock();
  llvm::BasicBlock* preheader = NewBlock(b, "loop.pre");
  llvm::BasicBlock* head = NewBlock(b, "loop");
  llvm::BasicBlock* exit = NewBlock(b, "loop.exit");
  b.CreateCondBr(b.CreateICmpSLT(begin, end), preheader, exit);
  b.SetInsertPoint(preheader);
  b.CreateBr(head);

  b.SetInsertPoint(head);
  llvm::PHINode* i = b.CreatePHI(begin->getType(), 2, "i");
  i->addIncoming(begin, preheader);
  Values phis;
  for (llvm::Value* value : carried) {
    llvm::PHINode* phi = b.CreatePHI(value->getType(), 2);
    phi->addIncoming(value, preheader);
    phis.push_back(phi);
  }
  const Values next = body(i, phis);
  llvm::Value* next_i = b.CreateAdd(i, llvm::ConstantInt::get(i->getType(), step), "", true, true);
  llvm::BasicBlock* latch = b.GetInsertBlock();
  b.CreateCondBr(b.CreateICmpSLT(next_i, end), head, exit);
  i->addIncoming(next_i, latch);

  b.SetInsertPoint(exit);
  for (size_t k = 0; k < carried.size(); ++k) {
    llvm::cast<llvm::PHINode>(phis[k])->addIncoming(next[k], latch);
    llvm::PHINode* last = b.CreatePHI(carried[k]->getType(), 2);
    last->addIncoming(carried[k], guard);
    last->addIncoming(next[k], latch);
    carried[k] = last;
  }
  return carried;
}

Values EmitIf(llvm::IRBuilderBase& b, llvm::Value* condition, const Values& otherwise,
              llvm::function_ref<Values()> then) {
  if (const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(condition)) {
    return constant->isZero() ? otherwise : then();
  }
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::BasicBlock* taken = NewBlock(b, "then");
  llvm::BasicBlock* join = NewBlock(b, "join");
  b.CreateCondBr(condition, taken, join);
  b.SetInsertPoint(taken);
  const Values values = then();
  llvm::BasicBlock* after = b.GetInsertBlock();
  b.CreateBr(join);
  b.SetInsertPoint(join);
  Values merged;
  for (size_t k = 0; k < otherwise.size(); ++k) {
    llvm::PHINode* phi = b.CreatePHI(otherwise[k]->getType(), 2);
    phi->addIncoming(otherwise[k], before);
    phi->addIncoming(values[k], after);
    merged.push_back(phi);
  }
  return merged;
}

}  // namespace kiln::codegen
