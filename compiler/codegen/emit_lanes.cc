// Masked accesses of KernelEmitter for targets that have no instruction for them. CPU: a loop over the active lanes,
// through a vector on the stack. LLVM would make a branch for every lane instead; as is done for a GPU, where a thread
// has few lanes, in registers.
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "compiler/codegen/emit_kernel.h"

namespace kiln::codegen {

bool KernelEmitter::HasMaskedAccess(const IndexPattern& pattern, DType type) const {
  const bool contiguous = pattern.kind == IndexPattern::Kind::kContiguous;
  const EmitTarget& target = context_.target;
  return ByteSize(type) >= (contiguous ? target.masked_access_bytes : target.masked_gather_bytes);
}

// One place for each type and purpose: what it holds is used up before the next access.
llvm::Value* KernelEmitter::LaneSlot(llvm::Type* vector, bool offsets) {
  llvm::Value*& slot = lane_slots_[offsets ? 1 : 0][vector];
  if (slot == nullptr) {
    const llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(function_->getEntryBlock().getTerminator());
    slot = b_.CreateAlloca(vector);
  }
  return slot;
}

// Of a lane's element, from the pattern's start.
llvm::Value* KernelEmitter::LaneOffset(const IndexPattern& pattern, unsigned lane) {
  switch (pattern.kind) {
    case IndexPattern::Kind::kUniform:
      return b_.getInt64(0);
    case IndexPattern::Kind::kContiguous:
      return b_.getInt64(lane);
    case IndexPattern::Kind::kGather:
      break;
  }
  return b_.CreateExtractElement(pattern.offsets, uint64_t{lane});
}

// body(lane) for the lanes that are set in `mask`, in increasing order.
void KernelEmitter::ForEachLane(llvm::Value* mask, llvm::function_ref<void(llvm::Value* lane)> body) {
  const unsigned lanes = LanesOf(mask);
  llvm::Value* bits = b_.CreateBitCast(mask, b_.getIntNTy(lanes));
  bits = b_.CreateZExt(bits, b_.getIntNTy(std::max(lanes, 32u)));
  llvm::Type* word = bits->getType();
  llvm::Value* zero = llvm::ConstantInt::get(word, 0);
  EmitIf(b_, b_.CreateICmpNE(bits, zero), {}, [&] {
    llvm::BasicBlock* before = b_.GetInsertBlock();
    llvm::Function* function = before->getParent();
    auto* head = llvm::BasicBlock::Create(b_.getContext(), "lane", function);
    auto* exit = llvm::BasicBlock::Create(b_.getContext(), "lanes.exit", function);
    b_.CreateBr(head);
    b_.SetInsertPoint(head);
    llvm::PHINode* left = b_.CreatePHI(word, 2);
    left->addIncoming(bits, before);
    llvm::Value* lane = b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, left, b_.getTrue());
    body(b_.CreateZExt(lane, b_.getInt64Ty()));
    llvm::Value* next = b_.CreateAnd(left, b_.CreateSub(left, llvm::ConstantInt::get(word, 1)));
    left->addIncoming(next, b_.GetInsertBlock());
    b_.CreateCondBr(b_.CreateICmpNE(next, zero), head, exit);
    b_.SetInsertPoint(exit);
    return Values();
  });
}

llvm::Value* KernelEmitter::LanePointer(llvm::Type* element, const IndexPattern& pattern, llvm::Value* pointer,
                                        llvm::Value* lane) {
  switch (pattern.kind) {
    case IndexPattern::Kind::kUniform:
      return pointer;
    case IndexPattern::Kind::kContiguous:
      return b_.CreateGEP(element, pointer, lane);
    case IndexPattern::Kind::kGather:
      break;
  }
  llvm::Value* slot = b_.CreateGEP(b_.getInt64Ty(), LaneSlot(pattern.offsets->getType(), true), lane);
  return b_.CreateGEP(element, pointer, b_.CreateLoad(b_.getInt64Ty(), slot));
}

// Lanes that are not active are zero.
llvm::Value* KernelEmitter::LoadLaneByLane(const loop::Let& let, const IndexPattern& pattern, llvm::Value* pointer,
                                           llvm::Value* mask) {
  llvm::Type* element = MemoryType(b_.getContext(), let.type);
  llvm::Type* vector = WithLanes(element, LanesOf(mask));
  if (is_simt_) {
    llvm::Value* lanes = llvm::Constant::getNullValue(vector);
    for (unsigned lane = 0; lane < LanesOf(mask); ++lane) {
      lanes = EmitIf(b_, b_.CreateExtractElement(mask, uint64_t{lane}), {lanes}, [&]() -> Values {
        llvm::Value* place = b_.CreateGEP(element, pointer, LaneOffset(pattern, lane));
        llvm::LoadInst* load = b_.CreateAlignedLoad(element, place, llvm::Align(ByteSize(let.type)));
        alias_.TagLoad(let.buffer, load);
        return {b_.CreateInsertElement(lanes, load, uint64_t{lane})};
      })[0];
    }
    return FromMemory(b_, let.type, lanes);
  }
  llvm::Value* slot = LaneSlot(vector, false);
  b_.CreateStore(llvm::Constant::getNullValue(vector), slot);
  if (pattern.offsets != nullptr) b_.CreateStore(pattern.offsets, LaneSlot(pattern.offsets->getType(), true));
  const llvm::Align align(static_cast<uint64_t>(ByteSize(let.type)));
  ForEachLane(mask, [&](llvm::Value* lane) {
    llvm::LoadInst* load = b_.CreateAlignedLoad(element, LanePointer(element, pattern, pointer, lane), align);
    alias_.TagLoad(let.buffer, load);
    b_.CreateAlignedStore(load, b_.CreateGEP(element, slot, lane), align);
  });
  return FromMemory(b_, let.type, b_.CreateLoad(vector, slot));
}

// `value` is in its memory type.
void KernelEmitter::StoreLaneByLane(const loop::Store& store, const IndexPattern& pattern, llvm::Value* pointer,
                                    llvm::Value* value, llvm::Value* mask) {
  const DType type = kernel_.buffers[store.buffer].dtype;
  llvm::Type* element = MemoryType(b_.getContext(), type);
  if (is_simt_) {
    for (unsigned lane = 0; lane < LanesOf(mask); ++lane) {
      EmitIf(b_, b_.CreateExtractElement(mask, uint64_t{lane}), {}, [&]() -> Values {
        llvm::Value* place = b_.CreateGEP(element, pointer, LaneOffset(pattern, lane));
        llvm::Value* one = b_.CreateExtractElement(value, uint64_t{lane});
        alias_.TagStore(store.buffer, b_.CreateAlignedStore(one, place, llvm::Align(ByteSize(type))));
        return {};
      });
    }
    return;
  }
  llvm::Value* slot = LaneSlot(value->getType(), false);
  b_.CreateStore(value, slot);
  if (pattern.offsets != nullptr) b_.CreateStore(pattern.offsets, LaneSlot(pattern.offsets->getType(), true));
  const llvm::Align align(static_cast<uint64_t>(ByteSize(type)));
  ForEachLane(mask, [&](llvm::Value* lane) {
    llvm::Value* one = b_.CreateAlignedLoad(element, b_.CreateGEP(element, slot, lane), align);
    llvm::Instruction* instruction = b_.CreateAlignedStore(one, LanePointer(element, pattern, pointer, lane), align);
    alias_.TagStore(store.buffer, instruction);
  });
}

}  // namespace kiln::codegen
