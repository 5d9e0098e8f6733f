#include "compiler/ops/vjp_rules.h"

#include <vector>

namespace kiln {

ValueId SumToOperand(OpBuilder& b, ValueId grad, const TensorType& like) {
  const TensorType type = b.type(grad);
  const size_t extra = type.sizes.size() - like.sizes.size();
  std::vector<int64_t> dims;
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    if (d < extra || like.sizes[d - extra] != type.sizes[d]) dims.push_back(static_cast<int64_t>(d));
  }
  if (dims.empty()) return grad;
  return b.view(b.sum_dim(grad, dims, false), like.sizes);
}

ValueId SpreadOverReduced(OpBuilder& b, const Call& call, ValueId grad) {
  const std::vector<Sym> sizes = call.type(0).sizes;
  std::vector<Sym> kept = sizes;
  for (const int64_t d : call.node().def->reduce(call).dims) kept[d] = b.syms().Const(1);
  return b.expand(b.view(grad, kept), sizes, false);
}

std::vector<ValueId> Pieces(OpBuilder& b, const Call& call, std::span<const ValueId> cotangents) {
  std::vector<ValueId> pieces;
  for (uint32_t r = 0; r < call.node().num_results; ++r) {
    const TensorType& type = call.result(r);
    pieces.push_back(cotangents[r] != kNoValue ? cotangents[r]
                                               : b.full(type.sizes, 0.0, type.dtype, std::nullopt, type.device));
  }
  return pieces;
}

Sym NumReduced(const Call& call) {
  Sym count = call.syms().Const(1);
  for (const int64_t d : call.node().def->reduce(call).dims) count = call.syms().Mul(count, call.type(0).sizes[d]);
  return count;
}

}  // namespace kiln
