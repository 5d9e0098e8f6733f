// The type rules of nodes.def and ir.h for one statement, used at birth (Builder), by the parser and by the verifier.
#pragma once

#include <optional>
#include <span>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/loop/ir.h"

namespace kiln::loop {

// The result type of `op` on operands of these types, for operations other than kConst, kIndex, kLoad, kCast and
// kBitcast (which do not follow from the operands). InvalidArgument that names the operation and the types if the rules
// are broken.
absl::StatusOr<DType> InferType(Op op, std::span<const DType> args);

// Gives the type of a defined value; nothing for a value that is not defined here.
using TypeOfFn = absl::FunctionRef<std::optional<DType>(ValueId)>;

// Everything about a Let or Store that its operands' types and its buffer decide; not its index expression.
absl::Status CheckLet(const Let& let, std::span<const Buffer> buffers, TypeOfFn type_of);
absl::Status CheckStore(const Store& store, std::span<const Buffer> buffers, TypeOfFn type_of);

}  // namespace kiln::loop
