// Parts of `decompose` bodies.
//
// Low-precision floats are widened to f32 once and rounded at the end, as in eager, whose kernels keep a row's
// statistics in f32.
#pragma once

#include <vector>

#include "compiler/ops/op_builder.h"
#include "compiler/ops/op_def.h"

namespace kiln {

// As the compute dtype, and as the dtype of result `i`.
ValueId Widened(OpBuilder& b, ValueId v);
ValueId AsResult(OpBuilder& b, const Call& call, ValueId v, size_t i = 0);
// Tensor argument i, widened.
inline ValueId WidenedArg(OpBuilder& b, const Call& call, size_t i) { return Widened(b, call.value(i)); }

// The sum over `dims`, or v itself where there are none.
ValueId SumOver(OpBuilder& b, ValueId v, const std::vector<int64_t>& dims, bool keepdim = false);

// The same elements, row-major, under other sizes: a view, of a copy where the layout asks for one.
ValueId Reshaped(OpBuilder& b, ValueId v, const std::vector<Sym>& sizes);

// A vector along dim `dim` of a tensor of `rank` dims: 1 at the others.
ValueId AlongDim(OpBuilder& b, ValueId v, int64_t dim, int64_t rank);

// A loss's Reduction argument, and the reduction of its elements.
enum class Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };
ValueId ReducedLoss(OpBuilder& b, const Call& call, ValueId elements, Reduction reduction);

// min(x, 0) - log(1 + exp(-|x|)).
ValueId LogSigmoid(OpBuilder& b, ValueId x);

// Whether some dim of tensor argument i is known to be 0.
bool IsEmpty(const Call& call, size_t i);

}  // namespace kiln
