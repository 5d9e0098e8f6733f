// Parts of `vjp` bodies.
#pragma once

#include "compiler/ops/op_builder.h"
#include "compiler/ops/op_def.h"

namespace kiln {

// The node's own result, where the derivative is simpler in terms of it.
inline ValueId ResultOf(const Call& call) { return call.node().first_result; }

// `grad` summed over the dims along which an operand of type `like` was broadcast.
ValueId SumToOperand(OpBuilder& b, ValueId grad, const TensorType& like);

// The cotangents of all results, zeros where there is none.
std::vector<ValueId> Pieces(OpBuilder& b, const Call& call, std::span<const ValueId> cotangents);

// A reduction's cotangent at every element that it folded.
ValueId SpreadOverReduced(OpBuilder& b, const Call& call, ValueId grad);
// Of how many elements a result of the reduction is.
Sym NumReduced(const Call& call);

}  // namespace kiln
