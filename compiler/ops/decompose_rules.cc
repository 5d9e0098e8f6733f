#include "compiler/ops/decompose_rules.h"

#include <algorithm>
#include <optional>

#include "compiler/ops/shape_rules.h"
#include "compiler/ops/view_rules.h"

namespace kiln {

ValueId Widened(OpBuilder& b, ValueId v) {
  const DType dtype = b.type(v).dtype, wide = ComputeDType(dtype);
  return wide == dtype ? v : b.convert_element_type(v, wide);
}

ValueId AsResult(OpBuilder& b, const Call& call, ValueId v, size_t i) {
  const DType dtype = call.result(i).dtype;
  return b.type(v).dtype == dtype ? v : b.convert_element_type(v, dtype);
}

ValueId SumOver(OpBuilder& b, ValueId v, const std::vector<int64_t>& dims, bool keepdim) {
  return dims.empty() ? v : b.sum_dim(v, dims, keepdim);
}

ValueId Reshaped(OpBuilder& b, ValueId v, const std::vector<Sym>& sizes) {
  if (b.type(v).sizes == sizes) return v;
  if (!ViewStrides(b.syms(), b.type(v), sizes)) v = b.clone(v, MemoryFormat::kContiguous);
  return b.view(v, sizes);
}

ValueId AlongDim(OpBuilder& b, ValueId v, int64_t dim, int64_t rank) {
  std::vector<Sym> sizes(rank, b.syms().Const(1));
  sizes[dim] = b.type(v).sizes[0];
  return b.view(v, sizes);
}

ValueId ReducedLoss(OpBuilder& b, const Call& call, ValueId elements, Reduction reduction) {
  if (reduction == Reduction::kMean) elements = b.mean(elements);
  if (reduction == Reduction::kSum) elements = b.sum(elements);
  return AsResult(b, call, elements);
}

ValueId LogSigmoid(OpBuilder& b, ValueId x) { return b.sub(b.clamp_max(x, 0.0), b.log1p(b.exp(b.neg(b.abs(x))))); }

bool IsEmpty(const Call& call, size_t i) {
  return std::ranges::any_of(call.type(i).sizes, [&](Sym s) { return call.syms().IsConst(s, 0); });
}

}  // namespace kiln
