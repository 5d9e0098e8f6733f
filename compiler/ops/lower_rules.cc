#include "compiler/ops/lower_rules.h"

#include <cmath>

namespace kiln {

Expr NumberAs(Element& e, size_t i, DType dtype) {
  loop::Builder& b = e.b();
  const Call& call = e.call();
  if (call.IsFloatNumber(i)) {
    const double value = call.Number(i);
    if (dtype == DType::kBool) return {b, b.ConstInt(dtype, value != 0)};
    return {b, IsFloat(dtype) ? b.Const(dtype, value) : b.Cast(dtype, b.Const(DType::kFloat64, value))};
  }
  const Sym sym = call.Int(i);
  const std::optional<int64_t> value = call.syms().AsConst(sym);
  if (!value) return {b, b.Cast(dtype, b.Index(sym))};
  if (dtype == DType::kBool) return {b, b.ConstInt(dtype, *value != 0)};
  return {b, b.ConstInt(dtype, *value)};
}

Expr OpmathOperand(Element& e, size_t i) {
  const Call& call = e.call();
  if (!IsLowPrecisionFloat(call.result().dtype)) return Operand(e, i);
  if (!call.is_tensor(i)) return NumberAs(e, i, e.compute());
  if (call.type(i).rank() > 0 || call.result().rank() == 0) return Operand(e, i);
  return Expr(e.b(), e.Raw(i, {})).Cast(e.compute());
}

Expr IndexExpr(Element& e, Sym index) { return {e.b(), e.b().Index(index)}; }
Expr Less(Element& e, Sym a, Sym b) { return IndexExpr(e, a) < IndexExpr(e, b); }
Expr LessEqual(Element& e, Sym a, Sym b) { return IndexExpr(e, a) <= IndexExpr(e, b); }

std::vector<Sym> WithDim(std::span<const Sym> index, int64_t dim, Sym replacement) {
  std::vector<Sym> result(index.begin(), index.end());
  result[dim] = replacement;
  return result;
}

}  // namespace kiln
