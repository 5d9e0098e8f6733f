#include "compiler/ops/lower_rules.h"

#include "compiler/ops/view_rules.h"

namespace kiln {

Expr NumberAs(Element& e, size_t i, DType dtype) {
  loop::Builder& b = e.b();
  const Call& call = e.call();
  if (call.IsFloatNumber(i)) {
    const double value = call.Number(i);
    if (dtype == DType::kBool) return {b, b.ConstBits(dtype, value != 0)};
    return {b, IsFloat(dtype) ? b.Const(dtype, value) : b.Cast(dtype, b.Const(DType::kFloat64, value))};
  }
  const Sym sym = call.Int(i);
  const std::optional<int64_t> value = call.syms().AsConst(sym);
  if (!value) return {b, b.Cast(dtype, b.Index(sym))};
  if (dtype == DType::kBool) return {b, b.ConstBits(dtype, *value != 0)};
  return {b, b.ConstInt(dtype, *value)};
}

Expr NumberOperand(Element& e, size_t i, DType promoted) {
  // Low-precision floats are reached through f32, as in torch.
  return RoundTo(promoted, NumberAs(e, i, ComputeDType(promoted)));
}

bool IsKnown(const Call& call, size_t i) {
  const Sym* sym = i < call.num_args() ? std::get_if<Sym>(&call.arg(i).v) : nullptr;
  return sym == nullptr || call.syms().AsConst(*sym).has_value();
}

Expr OpmathOperand(Element& e, size_t i) {
  const Call& call = e.call();
  if (!IsLowPrecisionFloat(call.result().dtype)) return Operand(e, i);
  if (!call.is_tensor(i)) return NumberAs(e, i, e.compute());
  if (call.type(i).rank() > 0 || call.result().rank() == 0) return Operand(e, i);
  return Expr(e.b(), e.Raw(i, {})).Cast(e.compute());
}

Expr RoundedNumber(Element& e, size_t i) { return RoundTo(e.call().result().dtype, NumberAs(e, i, e.compute())); }

Expr Condition(Element& e, size_t i) {
  const Call& call = e.call();
  const std::vector<Sym> at = BroadcastIndex(call.syms(), e.index(), call.result().sizes, call.type(i).sizes);
  return Expr(e.b(), e.Raw(i, at)).Cast(DType::kBool);
}

Expr IndexOperand(Element& e, size_t i, std::span<const Sym> index, size_t k) {
  return Expr(e.b(), e.Raw(i, index, k)).Cast(DType::kInt64);
}

Sym CheckedIndex(Element& e, Expr value, Sym size, bool wrap) {
  if (wrap) value = (value < 0.0).Select(value + IndexExpr(e, size), value);
  return e.b().IndexFromValue(value.id(), size);
}

Expr IndexExpr(Element& e, Sym index) { return {e.b(), e.b().Index(index)}; }
Expr Less(Element& e, Sym a, Sym b) { return IndexExpr(e, a) < IndexExpr(e, b); }
Expr LessEqual(Element& e, Sym a, Sym b) { return IndexExpr(e, a) <= IndexExpr(e, b); }

std::vector<Sym> WithDim(std::span<const Sym> index, int64_t dim, Sym replacement) {
  std::vector<Sym> result(index.begin(), index.end());
  result[dim] = replacement;
  return result;
}

std::vector<Sym> WithoutDim(std::span<const Sym> index, int64_t dim) {
  std::vector<Sym> result(index.begin(), index.end());
  result.erase(result.begin() + dim);
  return result;
}

std::vector<Sym> InsertDim(std::span<const Sym> index, int64_t dim, Sym inserted) {
  std::vector<Sym> result(index.begin(), index.end());
  result.insert(result.begin() + dim, inserted);
  return result;
}

}  // namespace kiln
