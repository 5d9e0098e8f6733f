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

// What Element::operator[] gives for an operand that is a number: rounded to the promoted dtype, widened to its
// ComputeDType.
Expr NumberOperand(Element& e, size_t i, DType promoted);

// The second operand of a product or quotient. For low-precision floats eager keeps a lone number, or a 0-dim tensor
// beside one with dims, in the compute dtype (bf16 x * 0.1 multiplies by f32 0.1); everywhere else operands are rounded
// to the promoted dtype.
Expr OpmathOperand(Element& e, size_t i);

// Number parameter i in the compute dtype, rounded to the result's dtype first.
Expr RoundedNumber(Element& e, size_t i);

// x rounded to `dtype` and widened again: where eager's kernel keeps an intermediate in a low-precision dtype.
inline Expr RoundTo(DType dtype, Expr x) { return x.Cast(dtype).Cast(x.type()); }

// Tensor argument i broadcast to the result's index, as a bool (not converted as Promote says).
Expr Condition(Element& e, size_t i);

// The value of a number that .supports = Known<i> has seen not to be symbolic: what a formula is chosen by.
inline double Parameter(Element& e, size_t i) { return e.call().Number(i); }
bool IsKnown(const Call& call, size_t i);  // also true of tensors and None
template <size_t... I>
bool Known(const Call& call) {
  return (IsKnown(call, I) && ...);
}

// e[i] as an i64 index read at `index` of tensor argument i.
Expr IndexOperand(Element& e, size_t i, std::span<const Sym> index, size_t k = 0);
// A data-dependent index of a dim of `size`, checked; negative ones count from the end if `wrap`.
Sym CheckedIndex(Element& e, Expr value, Sym size, bool wrap);

// Sizes and indices as values, and relations of them as bools.
Expr IndexExpr(Element& e, Sym index);  // i64
Expr Less(Element& e, Sym a, Sym b);
Expr LessEqual(Element& e, Sym a, Sym b);

// `index` with dim replaced, without it, and with one put in before it.
std::vector<Sym> WithDim(std::span<const Sym> index, int64_t dim, Sym replacement);
std::vector<Sym> WithoutDim(std::span<const Sym> index, int64_t dim);
std::vector<Sym> InsertDim(std::span<const Sym> index, int64_t dim, Sym inserted);

}  // namespace kiln
