// Parts of `lower` bodies.
#pragma once

#include <span>
#include <vector>

#include "compiler/ops/expr.h"
#include "compiler/ops/op_def.h"

namespace kiln {

// Operand i as an Expr.
inline Expr Operand(Element& e, size_t i) { return {e.b(), e[i]}; }

// .lower = Unary<loop::Op::kExp>
template <loop::Op op>
Results Unary(Element& e) {
  return {e.b().Apply(op, e[0])};
}
template <loop::Op op>
Results Binary(Element& e) {
  return {e.b().Apply(op, e[0], e[1])};
}

// Number argument i (a parameter, or an operand that is a number) as a constant of `dtype`, converted once and exactly:
// integers of 64 bits keep all of them, a symbolic integer is computed, a float becomes an integer by truncation.
Expr NumberAs(Element& e, size_t i, DType dtype);

// Operand i of an arithmetic record. Eager keeps a lone number, or a 0-dim tensor beside one with dims, in the compute
// dtype for low-precision floats (bf16 x * 0.1 multiplies by f32 0.1), where other operands are rounded to the promoted
// dtype first.
Expr OpmathOperand(Element& e, size_t i);

// Whether 0 <= or < relations of sizes and indices hold at this element, as bool values.
Expr IndexExpr(Element& e, Sym index);  // i64
Expr Less(Element& e, Sym a, Sym b);
Expr LessEqual(Element& e, Sym a, Sym b);

// The index of this element with `index` at dim instead.
std::vector<Sym> WithDim(std::span<const Sym> index, int64_t dim, Sym replacement);

}  // namespace kiln
