// Reductions of KernelEmitter, in the order of evaluation that ir.h fixes.
#include <llvm/IR/Constants.h>

#include <bit>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/emit_kernel.h"

namespace kiln::codegen {
namespace {

// Lanes [from, from + count) of `value`; a scalar for one.
llvm::Value* TakeLanes(llvm::IRBuilderBase& b, llvm::Value* value, unsigned from, unsigned count) {
  if (count == 1) return b.CreateExtractElement(value, uint64_t{from});
  llvm::SmallVector<int, 64> lanes;
  for (unsigned i = 0; i < count; ++i) lanes.push_back(static_cast<int>(from + i));
  return b.CreateShuffleVector(value, lanes);
}

// Accumulators are kept one tuple after the other.
Values TupleAt(const Values& accumulators, size_t index, size_t size) {
  return Values(accumulators.begin() + index * size, accumulators.begin() + (index + 1) * size);
}

}  // namespace

unsigned KernelEmitter::ReduceWidth(const loop::Reduce& reduce) const {
  return reduce.axis.kind == loop::AxisKind::kThread ? reduce.axis.lanes : reduce.axis.width;
}

// Which lanes from `i` on exist; null: all.
llvm::Value* KernelEmitter::ReduceTailMask(const loop::Reduce& reduce, llvm::Value* i, llvm::Value* extent) {
  const unsigned lanes = ReduceWidth(reduce);
  const bool together = lanes == 1 || (reduce.axis.kind == loop::AxisKind::kThread && LanesStayTogether(reduce.axis));
  return together ? nullptr : TailMask(i, extent, lanes);
}

Values KernelEmitter::Combine(const loop::Reduce& reduce, const Values& a, const Values& b) {
  for (size_t k = 0; k < reduce.types.size(); ++k) {
    Bind(reduce.a[k], reduce.types[k], a[k]);
    Bind(reduce.b[k], reduce.types[k], b[k]);
  }
  const VectorAxis outer = index_.vector_axis();
  VectorAxis vector = outer;
  vector.lanes = LanesOf(a[0]);
  index_.SetVectorAxis(vector);
  EmitBlock(reduce.combine);
  Values combined;
  for (size_t k = 0; k < reduce.combined.size() && status_.ok(); ++k) combined.push_back(InLanes(reduce.combined[k]));
  index_.SetVectorAxis(outer);
  return status_.ok() ? combined : a;
}

// Folds the lanes' iterations from i on, of which `mask` (null: all) exist, into `accumulator`.
Values KernelEmitter::ReduceStep(const loop::Reduce& reduce, llvm::Value* i, llvm::Value* mask,
                                 const Values& accumulator) {
  const unsigned width = ReduceWidth(reduce);
  const VectorAxis outer = index_.vector_axis();
  index_.EnterScope();
  index_.BindAxis(reduce.axis.id, i);
  if (reduce.axis.kind == loop::AxisKind::kThread) {
    llvm::Value* round = b_.CreateSub(i, FirstOfThread(reduce.axis));
    index_.SetVectorAxis({reduce.axis.id, width, i, mask, round, reduce.axis.width});
  } else if (width > 1) {
    index_.SetVectorAxis({reduce.axis.id, width, i, mask});
  }
  EmitBlock(reduce.body);
  Values result = accumulator;
  if (status_.ok()) {
    Values yields;
    for (const loop::ValueId yield : reduce.yields) yields.push_back(InLanes(yield));
    result = Combine(reduce, accumulator, yields);
  }
  if (mask != nullptr) {
    for (size_t k = 0; k < result.size(); ++k) result[k] = b_.CreateSelect(mask, result[k], accumulator[k]);
  }
  index_.SetVectorAxis(outer);
  index_.LeaveScope();
  return result;
}

// What is left after full rounds over all accumulators. One copy of the body serves them all: the accumulators rotate
// past it, and after as many turns as there are accumulators each is at home again.
Values KernelEmitter::ReduceTail(const loop::Reduce& reduce, llvm::Value* begin, llvm::Value* extent,
                                 Values accumulators) {
  const unsigned width = reduce.axis.width;
  const size_t size = reduce.types.size();
  auto turn = [&](llvm::Value* i, const Values& tuple) {
    return ReduceStep(reduce, i, ReduceTailMask(reduce, i, extent), tuple);
  };
  // `begin` is this thread's first one, if there are threads, which may not exist.
  if (reduce.accumulators == 1 && reduce.axis.kind != loop::AxisKind::kThread) return turn(begin, accumulators);
  if (reduce.accumulators == 1)
    return EmitIf(b_, b_.CreateICmpSLT(begin, extent), accumulators, [&] { return turn(begin, accumulators); });
  llvm::Value* end = b_.CreateAdd(begin, b_.getInt64(int64_t{width} * reduce.accumulators));
  return EmitLoop(b_, begin, end, width, std::move(accumulators), [&](llvm::Value* i, Values carried) {
    const Values first = TupleAt(carried, 0, size);
    const Values folded = EmitIf(b_, b_.CreateICmpSLT(i, extent), first, [&] { return turn(i, first); });
    carried.erase(carried.begin(), carried.begin() + static_cast<ptrdiff_t>(size));
    carried.append(folded.begin(), folded.end());
    return carried;
  });
}

// By halving: lane j takes lane j + h.
Values KernelEmitter::ReduceLanes(const loop::Reduce& reduce, Values tuple) {
  for (unsigned half = ReduceWidth(reduce) / 2; half >= 1; half /= 2) {
    Values low, high;
    for (llvm::Value* value : tuple) {
      low.push_back(TakeLanes(b_, value, 0, half));
      high.push_back(TakeLanes(b_, value, half, half));
    }
    tuple = Combine(reduce, low, high);
  }
  return tuple;
}

void KernelEmitter::EmitReduce(const loop::Reduce& reduce) {
  const bool threads = reduce.axis.kind == loop::AxisKind::kThread;
  const unsigned width = ReduceWidth(reduce);
  const size_t size = reduce.types.size();
  const unsigned outer_lanes = index_.vector_axis().lanes;
  const bool kind_ok = reduce.axis.kind != loop::AxisKind::kParallel && (!threads || (is_simt_ && !in_threads_));
  const bool counts_ok = std::has_single_bit(width) && width <= loop::kMaxVectorWidth && reduce.accumulators >= 1 &&
                         reduce.accumulators <= loop::kMaxAccumulators;
  if (!kind_ok || !counts_ok || size == 0 || (width > 1 && outer_lanes > 1)) {
    return Fail(absl::InternalError(absl::StrCat("reduction over i", reduce.axis.id)));
  }
  Values accumulators;
  for (unsigned u = 0; u < reduce.accumulators; ++u) {
    for (const loop::ValueId init : reduce.init) {
      accumulators.push_back(width > 1 ? Splat(b_, ValueOf(init).value, width) : InLanes(init));
    }
  }
  llvm::Value* extent = Extent(reduce.axis);
  llvm::Value* first = threads ? FirstOfThread(reduce.axis) : nullptr;
  in_threads_ = in_threads_ || threads;
  const int64_t step = reduce.axis.width, round = step * reduce.accumulators;
  const bool has_tail = !syms_.ProvablyDivisible(reduce.axis.extent, syms_.Const(round));
  llvm::Value* full = has_tail ? b_.CreateSub(extent, b_.CreateURem(extent, b_.getInt64(round))) : extent;
  const int64_t at_once = threads ? RoundsAtOnce(reduce.body, reduce.axis.lanes * reduce.accumulators) : 1;
  accumulators = EmitRounds(full, round, at_once, std::move(accumulators), [&](llvm::Value* i, Values carried) {
    Values next;
    for (unsigned u = 0; u < reduce.accumulators; ++u) {
      llvm::Value* at = threads ? b_.CreateAdd(i, first) : i;
      if (u > 0) at = b_.CreateAdd(at, b_.getInt64(u * step));
      const Values folded = ReduceStep(reduce, at, nullptr, TupleAt(carried, u, size));
      next.append(folded.begin(), folded.end());
    }
    return next;
  });
  if (has_tail) {
    accumulators = EmitIf(b_, b_.CreateICmpSLT(full, extent), accumulators, [&] {
      return ReduceTail(reduce, threads ? b_.CreateAdd(full, first) : full, extent, accumulators);
    });
  }
  Values tuple = TupleAt(accumulators, 0, size);
  for (unsigned u = 1; u < reduce.accumulators; ++u) tuple = Combine(reduce, tuple, TupleAt(accumulators, u, size));
  tuple = ReduceLanes(reduce, std::move(tuple));
  if (threads) {
    tuple = FoldThreads(reduce, std::move(tuple));
    in_threads_ = false;
  }
  for (size_t k = 0; k < size; ++k) Bind(reduce.results[k], reduce.types[k], tuple[k]);
}

}  // namespace kiln::codegen
