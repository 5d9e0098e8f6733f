// Scalar formulas of records in ordinary notation: (1 - y * y) * g writes three statements.
//
// Every operator is one loop operation with one rounding; nothing is re-associated or contracted, so that a formula
// reads in the order in which eager's kernel computes it. Operands of an operator have one type; a double beside an
// Expr is rounded to it.
#pragma once

#include "compiler/loop/builder.h"

namespace kiln {

class Expr {
 public:
  Expr(loop::Builder& b, loop::ValueId id) : b_(&b), id_(id) {}
  loop::ValueId id() const { return id_; }
  DType type() const { return b_->TypeOf(id_); }
  Expr Apply(loop::Op op) const { return {*b_, b_->Apply(op, id_)}; }
  Expr Apply(loop::Op op, Expr y) const { return {*b_, b_->Apply(op, id_, y.id_)}; }
  Expr Const(double value) const { return {*b_, b_->Const(type(), value)}; }
  Expr Cast(DType dtype) const { return {*b_, b_->Cast(dtype, id_)}; }
  // This condition's choice.
  Expr Select(Expr if_true, Expr if_false) const { return {*b_, b_->Select(id_, if_true.id_, if_false.id_)}; }
  // this * y + z, rounded once
  Expr Fma(Expr y, Expr z) const { return {*b_, b_->Apply(loop::Op::kFma, id_, y.id_, z.id_)}; }

 private:
  loop::Builder* b_;
  loop::ValueId id_;
};

#define KILN_EXPR_OPERATOR(symbol, op)                                                        \
  inline Expr operator symbol(Expr x, Expr y) { return x.Apply(loop::Op::op, y); }            \
  inline Expr operator symbol(Expr x, double y) { return x.Apply(loop::Op::op, x.Const(y)); } \
  inline Expr operator symbol(double x, Expr y) { return y.Const(x).Apply(loop::Op::op, y); }
KILN_EXPR_OPERATOR(+, kAdd)
KILN_EXPR_OPERATOR(-, kSub)
KILN_EXPR_OPERATOR(*, kMul)
KILN_EXPR_OPERATOR(/, kDiv)
KILN_EXPR_OPERATOR(<, kLt)
KILN_EXPR_OPERATOR(<=, kLe)
KILN_EXPR_OPERATOR(==, kEq)
KILN_EXPR_OPERATOR(!=, kNe)
#undef KILN_EXPR_OPERATOR

inline Expr operator>(Expr x, Expr y) { return y < x; }
inline Expr operator>(Expr x, double y) { return x.Const(y) < x; }
inline Expr operator>=(Expr x, Expr y) { return y <= x; }
inline Expr operator>=(Expr x, double y) { return x.Const(y) <= x; }
inline Expr operator&(Expr x, Expr y) { return x.Apply(loop::Op::kAnd, y); }
inline Expr operator|(Expr x, Expr y) { return x.Apply(loop::Op::kOr, y); }
inline Expr operator!(Expr x) { return x.Apply(loop::Op::kNot); }
inline Expr operator-(Expr x) { return x.Apply(loop::Op::kNeg); }

inline Expr Exp(Expr x) { return x.Apply(loop::Op::kExp); }
inline Expr Log(Expr x) { return x.Apply(loop::Op::kLog); }
inline Expr Log1p(Expr x) { return x.Apply(loop::Op::kLog1p); }
inline Expr Expm1(Expr x) { return x.Apply(loop::Op::kExpm1); }
inline Expr Tanh(Expr x) { return x.Apply(loop::Op::kTanh); }
inline Expr Erf(Expr x) { return x.Apply(loop::Op::kErf); }
inline Expr Sqrt(Expr x) { return x.Apply(loop::Op::kSqrt); }
inline Expr Abs(Expr x) { return x.Apply(loop::Op::kAbs); }
inline Expr Min(Expr x, Expr y) { return x.Apply(loop::Op::kMin, y); }
inline Expr Max(Expr x, Expr y) { return x.Apply(loop::Op::kMax, y); }
// Bounds that are not NaN. A comparison rather than Max and Min: x's NaN stays, and of equal zeros x's own.
inline Expr ClampBelow(Expr x, Expr low) { return (x < low).Select(low, x); }
inline Expr ClampAbove(Expr x, Expr high) { return (high < x).Select(high, x); }
inline Expr Fma(Expr x, Expr y, Expr z) { return x.Fma(y, z); }

}  // namespace kiln
