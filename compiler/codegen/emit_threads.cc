// Axes over the threads of a block, and what threads do together.
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/emit_kernel.h"
#include "compiler/loop/mutate.h"

namespace kiln::codegen {
namespace {

// The shape of a shuffle among all lanes of a warp (PTX ISA, shfl.sync: operand c).
constexpr int kWholeWarp = 0x1f;

// One 32-bit word from each lane.
using WordShuffle = llvm::function_ref<llvm::Value*(llvm::Value* word)>;

// `value`, of any type, through 32-bit words.
llvm::Value* ShuffleWords(llvm::IRBuilderBase& b, llvm::Value* value, WordShuffle shuffle) {
  llvm::Type* type = value->getType();
  const unsigned bits = type->getPrimitiveSizeInBits();
  llvm::Value* word = b.CreateBitCast(value, b.getIntNTy(bits));
  if (bits <= 32) {
    word = b.CreateTrunc(shuffle(b.CreateZExt(word, b.getInt32Ty())), b.getIntNTy(bits));
  } else {
    llvm::Value* low = shuffle(b.CreateTrunc(word, b.getInt32Ty()));
    llvm::Value* high = shuffle(b.CreateTrunc(b.CreateLShr(word, 32), b.getInt32Ty()));
    word = b.CreateOr(b.CreateShl(b.CreateZExt(high, b.getInt64Ty()), 32), b.CreateZExt(low, b.getInt64Ty()));
  }
  return b.CreateBitCast(word, type);
}

llvm::Value* Shuffle(llvm::IRBuilderBase& b, llvm::Intrinsic::ID id, llvm::Value* value, unsigned lane) {
  return ShuffleWords(b, value, [&](llvm::Value* word) -> llvm::Value* {
    return b.CreateIntrinsic(id, {}, {b.getInt32(~0u), word, b.getInt32(lane), b.getInt32(kWholeWarp)});
  });
}

}  // namespace

int64_t RoundsAtOnce(const loop::Block& body, int64_t lanes) {
  constexpr int64_t kOperations = 128, kMost = 8;
  constexpr int64_t kOfAFunction = 16;
  int64_t operations = 1;
  loop::Walk(body, [&](const loop::Stmt& stmt) {
    const auto* let = std::get_if<loop::Let>(&stmt.node);
    operations += let != nullptr && loop::IsFunction(let->op) ? kOfAFunction : 1;
  });
  const int64_t rounds = std::clamp<int64_t>(kOperations / (operations * lanes), 1, kMost);
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(rounds)));
}

// An array of the block's.
llvm::Value* KernelEmitter::SharedArray(llvm::Type* element, uint64_t count) {
  constexpr unsigned kSharedSpace = 3;
  auto* type = llvm::ArrayType::get(element, count);
  auto* global = new llvm::GlobalVariable(context_.module, type, /*isConstant=*/false,
                                          llvm::GlobalValue::InternalLinkage, llvm::UndefValue::get(type), "shared",
                                          /*InsertBefore=*/nullptr, llvm::GlobalValue::NotThreadLocal, kSharedSpace);
  global->setAlignment(llvm::Align(16));
  return global;
}

void KernelEmitter::EmitBarrier() {
  if (is_simt_) b_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
}

llvm::Value* KernelEmitter::ThreadId() {
  if (thread_ != nullptr) return thread_;
  const llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(function_->getEntryBlock().getTerminator());
  llvm::Value* id = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {}, {});
  return thread_ = b_.CreateZExt(id, b_.getInt64Ty());
}

llvm::Value* KernelEmitter::BlockId() {
  llvm::Value* id = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {}, {});
  return b_.CreateZExt(id, b_.getInt64Ty());
}

// The axis at the first of this thread's lanes, less what all threads add.
llvm::Value* KernelEmitter::FirstOfThread(const loop::Axis& axis) {
  return b_.CreateMul(ThreadId(), b_.getInt64(axis.lanes), "", /*HasNUW=*/true, /*HasNSW=*/true);
}

// Whether a thread's lanes all lie inside of the axis, or none does.
bool KernelEmitter::LanesStayTogether(const loop::Axis& axis) {
  return syms_.ProvablyDivisible(axis.extent, syms_.Const(axis.lanes));
}

// Rounds of all threads, then one of those that still have something.
void KernelEmitter::EmitThreadFor(const loop::For& loop) {
  const loop::Axis& axis = loop.axis;
  if (!is_simt_ || in_threads_) return Fail(absl::InternalError(absl::StrCat("thread axis i", axis.id)));
  llvm::Value* extent = Extent(axis);
  llvm::Value* first = FirstOfThread(axis);
  const int64_t width = axis.width;
  const bool has_tail = !syms_.ProvablyDivisible(axis.extent, syms_.Const(width));
  llvm::Value* full = has_tail ? b_.CreateSub(extent, b_.CreateURem(extent, b_.getInt64(width))) : extent;
  in_threads_ = true;
  EmitRounds(full, width, RoundsAtOnce(loop.body, axis.lanes), {}, [&](llvm::Value* base, const Values&) {
    llvm::Value* i = b_.CreateAdd(base, first);
    EmitIteration(axis, i, {axis.id, axis.lanes, i, nullptr, base, width}, loop.body);
    return Values();
  });
  if (has_tail) {
    llvm::Value* i = b_.CreateAdd(full, first);
    EmitIf(b_, b_.CreateICmpSLT(i, extent), {}, [&] {
      llvm::Value* mask = LanesStayTogether(axis) ? nullptr : TailMask(i, extent, axis.lanes);
      EmitIteration(axis, i, {axis.id, axis.lanes, i, mask, full, width}, loop.body);
      return Values();
    });
  }
  in_threads_ = false;
}

// As EmitLoop from 0 on; a few rounds become straight code: their loads are in flight together, and arrays of registers
// have constant indices. Of many, so many `at_once`, in the same order.
Values KernelEmitter::EmitRounds(llvm::Value* end, int64_t step, int64_t at_once, Values carried,
                                 llvm::function_ref<Values(llvm::Value* base, Values carried)> body) {
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(end);
  if (is_simt_ && constant != nullptr && constant->getSExtValue() <= kMaxRounds * step) {
    for (int64_t base = 0; base < constant->getSExtValue(); base += step) carried = body(b_.getInt64(base), carried);
    return carried;
  }
  llvm::Value* begin = b_.getInt64(0);
  if (is_simt_ && at_once > 1) {
    const int64_t stride = at_once * step;
    llvm::Value* whole = b_.CreateSub(end, b_.CreateURem(end, b_.getInt64(stride)));
    carried = EmitLoop(b_, begin, whole, stride, std::move(carried), [&](llvm::Value* base, Values values) {
      for (int64_t k = 0; k < at_once; ++k) values = body(b_.CreateAdd(base, b_.getInt64(k * step)), values);
      return values;
    });
    begin = whole;
  }
  return EmitLoop(b_, begin, end, step, std::move(carried), body);
}

// This thread's part of a register buffer: of every round over its axis, the lanes.
llvm::Value* KernelEmitter::OwnElement(loop::BufferId buffer, Sym index) {
  const VectorAxis& axis = index_.vector_axis();
  const auto linear = syms_.AsLinear(index, Var{VarKind::kAxis, axis.axis});
  const Sym width = syms_.Const(axis.round_width);
  if (!in_threads_ || !linear || !syms_.IsConst(linear->coefficient, 1) ||
      !syms_.ProvablyDivisible(linear->rest, width)) {
    Fail(absl::InternalError(absl::StrCat("b", buffer, " is accessed where another thread may own the element")));
    return llvm::PoisonValue::get(b_.getPtrTy());
  }
  llvm::Value* before = index_.Uniform(syms_.FloorDiv(linear->rest, width));
  llvm::Value* round = b_.CreateAdd(b_.CreateUDiv(axis.round, b_.getInt64(axis.round_width)), before);
  llvm::Type* element = MemoryType(b_.getContext(), kernel_.buffers[buffer].dtype);
  return b_.CreateGEP(element, BufferPointer(buffer), b_.CreateMul(round, b_.getInt64(axis.lanes)));
}

// Of a register buffer of so many elements, for any thread: whole rounds of the kernel's threads and their lanes.
int64_t KernelEmitter::OwnElements(int64_t size) const {
  int64_t width = 1, lanes = 1;
  loop::Walk(kernel_.body, [&](const loop::Stmt& stmt) {
    const loop::Axis* axis = loop::AxisOf(stmt);
    if (axis == nullptr || axis->kind != loop::AxisKind::kThread || axis->lanes < lanes) return;
    width = axis->width;
    lanes = axis->lanes;
  });
  return (size + width - 1) / width * lanes;
}

// What a mask leaves out is nobody else's either.
void KernelEmitter::LoadOwn(const loop::Let& let) {
  if (let.mask != loop::kNone) return Fail(absl::UnimplementedError("registers under a mask"));
  llvm::Type* type = WithLanes(MemoryType(b_.getContext(), let.type), index_.vector_axis().lanes);
  llvm::Value* place = OwnElement(let.buffer, let.index);
  const llvm::Align align(static_cast<uint64_t>(ByteSize(let.type)));
  Bind(let.result, let.type, FromMemory(b_, let.type, b_.CreateAlignedLoad(type, place, align)));
}

void KernelEmitter::StoreOwn(const loop::Store& store) {
  if (store.mask != loop::kNone) return Fail(absl::UnimplementedError("registers under a mask"));
  const DType type = kernel_.buffers[store.buffer].dtype;
  llvm::Value* place = OwnElement(store.buffer, store.index);
  const llvm::Align align(static_cast<uint64_t>(ByteSize(type)));
  b_.CreateAlignedStore(ToMemory(b_, type, InLanes(store.value)), place, align);
}

// Folds `tuple` of the first `count` lanes of each warp by halving: lane 0 has the result, the others nothing of use.
Values KernelEmitter::FoldWarp(const loop::Reduce& reduce, Values tuple, unsigned count) {
  for (unsigned half = count / 2; half >= 1; half /= 2) {
    Values high;
    for (llvm::Value* value : tuple) high.push_back(Shuffle(b_, llvm::Intrinsic::nvvm_shfl_sync_down_i32, value, half));
    tuple = Combine(reduce, tuple, high);
  }
  return tuple;
}

// One tuple a thread becomes one that all threads have. Warps meet in shared memory, which each statement has of its
// own; where it runs again, all must have read before any writes.
Values KernelEmitter::FoldThreads(const loop::Reduce& reduce, Values tuple) {
  const unsigned threads = reduce.axis.width / reduce.axis.lanes;
  tuple = FoldWarp(reduce, std::move(tuple), std::min(threads, loop::kWarp));
  if (threads > loop::kWarp) {
    const unsigned warps = threads / loop::kWarp;
    llvm::Value* warp = b_.CreateLShr(ThreadId(), b_.getInt64(std::countr_zero(loop::kWarp)));
    llvm::Value* lane = b_.CreateAnd(ThreadId(), b_.getInt64(loop::kWarp - 1));
    Values places;
    for (size_t k = 0; k < tuple.size(); ++k)
      places.push_back(SharedArray(MemoryType(b_.getContext(), reduce.types[k]), warps));
    const auto at = [&](size_t k, llvm::Value* index) {
      return b_.CreateGEP(MemoryType(b_.getContext(), reduce.types[k]), places[k], index);
    };
    if (nesting_ > kOutermost) EmitBarrier();
    EmitIf(b_, b_.CreateICmpEQ(lane, b_.getInt64(0)), {}, [&] {
      for (size_t k = 0; k < tuple.size(); ++k) b_.CreateStore(ToMemory(b_, reduce.types[k], tuple[k]), at(k, warp));
      return Values();
    });
    EmitBarrier();
    llvm::Value* mine = b_.CreateAnd(lane, b_.getInt64(warps - 1));
    for (size_t k = 0; k < tuple.size(); ++k) {
      llvm::Type* type = MemoryType(b_.getContext(), reduce.types[k]);
      tuple[k] = FromMemory(b_, reduce.types[k], b_.CreateLoad(type, at(k, mine)));
    }
    tuple = FoldWarp(reduce, std::move(tuple), warps);
  }
  for (llvm::Value*& value : tuple) value = Shuffle(b_, llvm::Intrinsic::nvvm_shfl_sync_idx_i32, value, 0);
  return tuple;
}

}  // namespace kiln::codegen
