// Type promotion, as torch.result_type and TensorIterator do it.
//
// Operands fall into three categories: tensors with dims, 0-dim tensors, and Python numbers. The highest *kind* (bool <
// integer < floating < complex) decides: a later category only counts where its kind is higher than that of all earlier
// ones, and then gives its own dtype (a number: bool, i64, the default float).
#pragma once

#include <span>

#include "compiler/ops/op_def.h"

namespace kiln {

// The default float dtype. A client whose torch.get_default_dtype() is another gives result types that VerifyCall
// refuses.
inline constexpr DType kDefaultFloat = DType::kFloat32;

// torch.promote_types.
DType PromoteTypes(DType a, DType b);

// torch.result_type of the given arguments (tensors, lists of tensors, numbers; None is skipped).
DType CommonDType(const Call& call, std::span<const size_t> args);

// The dtype that the record's Promote converts operands to; for kNone the result's. Needs result types for kResult and
// kNone only.
DType PromotedDType(const Call& call);

// The result's dtype by the record's Promote; kResult and kNone have none by themselves and give argument 0's.
DType ResultDType(const Call& call);

// Whether the record's argument i is an operand of promotion (Tensor, Tensor?, Tensor[], Tensor|Scalar) rather than a
// parameter.
bool IsOperand(const OpDef& def, size_t i);

}  // namespace kiln
