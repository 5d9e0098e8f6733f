// Loop-IR expressions with operators, for writing the definitions in defs/ as formulas.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "compiler/loop/builder.h"

namespace kiln::mathlib {

// A value of a builder. Operands of an operator have one type; a plain number takes the type of the other operand (for
// integers it must be one). Cheap to copy; valid as long as the builder.
struct Expr {
  loop::Builder* b = nullptr;
  loop::ValueId id = loop::kNone;

  DType type() const { return b->TypeOf(id); }
  Expr Like(double value) const { return {b, b->Const(type(), value)}; }
  Expr Bits(uint64_t bits) const { return {b, b->ConstBits(type(), bits)}; }
};

inline Expr Apply(loop::Op op, Expr x) { return {x.b, x.b->Apply(op, x.id)}; }
inline Expr Apply(loop::Op op, Expr x, Expr y) { return {x.b, x.b->Apply(op, x.id, y.id)}; }
inline Expr Apply(loop::Op op, Expr x, Expr y, Expr z) { return {x.b, x.b->Apply(op, x.id, y.id, z.id)}; }

#define KILN_EXPR_OPERATOR(symbol, op)                                                        \
  inline Expr operator symbol(Expr x, Expr y) { return Apply(loop::Op::op, x, y); }           \
  inline Expr operator symbol(Expr x, double y) { return Apply(loop::Op::op, x, x.Like(y)); } \
  inline Expr operator symbol(double x, Expr y) { return Apply(loop::Op::op, y.Like(x), y); }
KILN_EXPR_OPERATOR(+, kAdd)
KILN_EXPR_OPERATOR(-, kSub)
KILN_EXPR_OPERATOR(*, kMul)
KILN_EXPR_OPERATOR(/, kDiv)
KILN_EXPR_OPERATOR(&, kAnd)
KILN_EXPR_OPERATOR(|, kOr)
KILN_EXPR_OPERATOR(^, kXor)
KILN_EXPR_OPERATOR(<<, kShl)
KILN_EXPR_OPERATOR(>>, kShr)
KILN_EXPR_OPERATOR(<, kLt)
KILN_EXPR_OPERATOR(<=, kLe)
KILN_EXPR_OPERATOR(==, kEq)
KILN_EXPR_OPERATOR(!=, kNe)
#undef KILN_EXPR_OPERATOR

inline Expr operator-(Expr x) { return Apply(loop::Op::kNeg, x); }
inline Expr operator!(Expr x) { return Apply(loop::Op::kNot, x); }
inline Expr Abs(Expr x) { return Apply(loop::Op::kAbs, x); }
inline Expr Sqrt(Expr x) { return Apply(loop::Op::kSqrt, x); }
inline Expr Round(Expr x) { return Apply(loop::Op::kRound, x); }
inline Expr Copysign(Expr x, Expr y) { return Apply(loop::Op::kCopysign, x, y); }
// NaN if x is NaN.
inline Expr Min(Expr x, double y) { return Apply(loop::Op::kMin, x, x.Like(y)); }
inline Expr Max(Expr x, double y) { return Apply(loop::Op::kMax, x, x.Like(y)); }
inline Expr Fma(Expr x, Expr y, Expr z) { return Apply(loop::Op::kFma, x, y, z); }
inline Expr Fma(Expr x, double y, Expr z) { return Fma(x, x.Like(y), z); }
inline Expr Fma(Expr x, Expr y, double z) { return Fma(x, y, x.Like(z)); }
inline Expr Fma(Expr x, double y, double z) { return Fma(x, x.Like(y), x.Like(z)); }
inline Expr Select(Expr condition, Expr x, Expr y) { return {x.b, x.b->Select(condition.id, x.id, y.id)}; }
inline Expr Select(Expr condition, Expr x, double y) { return Select(condition, x, x.Like(y)); }
inline Expr Select(Expr condition, double x, Expr y) { return Select(condition, y.Like(x), y); }
inline Expr Cast(DType type, Expr x) { return {x.b, x.b->Cast(type, x.id)}; }
inline Expr Bitcast(DType type, Expr x) { return {x.b, x.b->Bitcast(type, x.id)}; }

// c0 + x (c1 + x (c2 + …)), one fma a step.
inline Expr Polynomial(Expr x, std::initializer_list<double> coefficients) {
  const double* c = coefficients.end();
  Expr result = x.Like(*--c);
  while (c != coefficients.begin()) result = Fma(result, x, *--c);
  return result;
}

}  // namespace kiln::mathlib
