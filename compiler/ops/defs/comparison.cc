// Comparisons, logic, selection and bounds.
#include <algorithm>
#include <cmath>

#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_builder.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/promote.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/ops/vjp_rules.h"

namespace kiln {
namespace {

// To the operand that is the result; half to each of two that are equal.
Grads ExtremeVjp(GraphBuilder& graph, const Call& c, std::span<const ValueId> d) {
  OpBuilder b(graph);
  const ValueId equal = b.eq(c.value(0), c.value(1)), half = b.mul(d[0], 0.5);
  const auto of = [&](size_t i) {
    const ValueId whole = b.where(b.eq(c.value(i), ResultOf(c)), d[0], 0.0);
    return SumToOperand(b, b.where(equal, half, whole), c.type(i));
  };
  return {of(0), of(1)};
}

template <loop::Op op>
Results LowerLogic(Element& e) {
  return {Operand(e, 0).Cast(DType::kBool).Apply(op, Operand(e, 1).Cast(DType::kBool)).id()};
}

absl::StatusOr<TypeList> BoolShape(const Call& call) {
  absl::StatusOr<TypeList> types = ElementwiseShape(call);
  if (types.ok()) (*types)[0].dtype = DType::kBool;
  return types;
}

// NaN of either operand stays, as in torch.maximum; bools have no maximum but logic.
Expr Larger(Expr x, Expr y) { return x.type() == DType::kBool ? x | y : Max(x, y); }
Expr Smaller(Expr x, Expr y) { return x.type() == DType::kBool ? x & y : Min(x, y); }

double RefMax(double x, double y) { return std::isnan(x) || std::isnan(y) ? NAN : std::max(x, y); }
double RefMin(double x, double y) { return std::isnan(x) || std::isnan(y) ? NAN : std::min(x, y); }

// A bound that is a number and not NaN needs no care for NaN but the operand's own, and keeps the operand's zero.
Expr AtLeast(Element& e, Expr x, size_t bound) {
  const Expr low = Operand(e, bound);
  if (e.call().is_tensor(bound) || std::isnan(Parameter(e, bound))) return Larger(x, low);
  return ClampBelow(x, low);
}
Expr AtMost(Element& e, Expr x, size_t bound) {
  const Expr high = Operand(e, bound);
  if (e.call().is_tensor(bound) || std::isnan(Parameter(e, bound))) return Smaller(x, high);
  return ClampAbove(x, high);
}

}  // namespace

// Operands meet in their common dtype before they are compared (a bf16 tensor with 0.1: 0.1 is rounded to bf16).
KILN_OP(eq) = {
    .schema = "eq(Tensor self, Tensor|Scalar other) -> Tensor",
    .torch = {"aten.eq.Scalar", "aten.eq.Tensor"},
    .promote = Promote::kCompare,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {(Operand(e, 0) == Operand(e, 1)).id()}; },
    .no_grad = "the result is a bool",
    .ref = [](const RefArgs& x) -> double { return x[0] == x[1]; },
    .samples = {{-2, 2}, {-1, 1, true}},
};

KILN_OP(ne) = {
    .schema = "ne(Tensor self, Tensor|Scalar other) -> Tensor",
    .torch = {"aten.ne.Scalar", "aten.ne.Tensor"},
    .promote = Promote::kCompare,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {(Operand(e, 0) != Operand(e, 1)).id()}; },
    .no_grad = "the result is a bool",
    .ref = [](const RefArgs& x) -> double { return x[0] != x[1]; },
    .samples = {{-2, 2}, {-1, 1, true}},
};

KILN_OP(lt) = {
    .schema = "lt(Tensor self, Tensor|Scalar other) -> Tensor",
    .torch = {"aten.lt.Scalar", "aten.lt.Tensor"},
    .promote = Promote::kCompare,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {(Operand(e, 0) < Operand(e, 1)).id()}; },
    .no_grad = "the result is a bool",
    .ref = [](const RefArgs& x) -> double { return x[0] < x[1]; },
    .samples = {{-2, 2}, {-1, 1, true}},
};

KILN_OP(le) = {
    .schema = "le(Tensor self, Tensor|Scalar other) -> Tensor",
    .torch = {"aten.le.Scalar", "aten.le.Tensor"},
    .promote = Promote::kCompare,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {(Operand(e, 0) <= Operand(e, 1)).id()}; },
    .no_grad = "the result is a bool",
    .ref = [](const RefArgs& x) -> double { return x[0] <= x[1]; },
    .samples = {{-2, 2}, {-1, 1, true}},
};

KILN_OP(gt) = {
    .schema = "gt(Tensor self, Tensor|Scalar other) -> Tensor",
    .torch = {"aten.gt.Scalar", "aten.gt.Tensor"},
    .promote = Promote::kCompare,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {(Operand(e, 0) > Operand(e, 1)).id()}; },
    .no_grad = "the result is a bool",
    .ref = [](const RefArgs& x) -> double { return x[0] > x[1]; },
    .samples = {{-2, 2}, {-1, 1, true}},
};

KILN_OP(ge) = {
    .schema = "ge(Tensor self, Tensor|Scalar other) -> Tensor",
    .torch = {"aten.ge.Scalar", "aten.ge.Tensor"},
    .promote = Promote::kCompare,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {(Operand(e, 0) >= Operand(e, 1)).id()}; },
    .no_grad = "the result is a bool",
    .ref = [](const RefArgs& x) -> double { return x[0] >= x[1]; },
    .samples = {{-2, 2}, {-1, 1, true}},
};

KILN_OP(logical_and) = {
    .schema = "logical_and(Tensor self, Tensor other) -> Tensor",
    .torch = {"aten.logical_and.default"},
    .promote = Promote::kNone,
    .shape = BoolShape,
    .lower = LowerLogic<loop::Op::kAnd>,
    .no_grad = "the result is a bool",
    .ref = [](const RefArgs& x) -> double { return x[0] != 0 && x[1] != 0; },
    .samples = {{-1, 1}, {-1, 1, true}},
};

KILN_OP(logical_or) = {
    .schema = "logical_or(Tensor self, Tensor other) -> Tensor",
    .torch = {"aten.logical_or.default"},
    .promote = Promote::kNone,
    .shape = BoolShape,
    .lower = LowerLogic<loop::Op::kOr>,
    .no_grad = "the result is a bool",
    .ref = [](const RefArgs& x) -> double { return x[0] != 0 || x[1] != 0; },
    .samples = {{-1, 1}, {-1, 1, true}},
};

KILN_OP(logical_xor) = {
    .schema = "logical_xor(Tensor self, Tensor other) -> Tensor",
    .torch = {"aten.logical_xor.default"},
    .promote = Promote::kNone,
    .shape = BoolShape,
    .lower = LowerLogic<loop::Op::kXor>,
    .no_grad = "the result is a bool",
    .ref = [](const RefArgs& x) -> double { return (x[0] != 0) != (x[1] != 0); },
    .samples = {{-1, 1}, {-1, 1, true}},
};

KILN_OP(logical_not) = {
    .schema = "logical_not(Tensor self) -> Tensor",
    .torch = {"aten.logical_not.default"},
    .promote = Promote::kNone,
    .shape = BoolShape,
    .lower = [](Element& e) -> Results { return {(!Operand(e, 0).Cast(DType::kBool)).id()}; },
    .no_grad = "the result is a bool",
    .ref = [](const RefArgs& x) -> double { return x[0] == 0; },
    .samples = {{-1, 1}, {-1, 1, true}},
};

KILN_OP(isnan) = {
    .schema = "isnan(Tensor self) -> Tensor",
    .torch = {"aten.isnan.default"},
    .promote = Promote::kNone,
    .shape = BoolShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0);
      return {(x != x).id()};
    },
    .no_grad = "the result is a bool",
    .ref = [](const RefArgs& x) -> double { return std::isnan(x[0]); },
    .samples = {{-1, 1, true}},
};

KILN_OP(isinf) = {
    .schema = "isinf(Tensor self) -> Tensor",
    .torch = {"aten.isinf.default"},
    .promote = Promote::kNone,
    .shape = BoolShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0);
      if (!IsFloat(x.type())) return {e.b().ConstBits(DType::kBool, 0)};
      return {(Abs(x) == x.Const(INFINITY)).id()};
    },
    .no_grad = "the result is a bool",
    .ref = [](const RefArgs& x) -> double { return std::isinf(x[0]); },
    .samples = {{-1, 1, true}},
};

KILN_OP(bitwise_and) = {
    .schema = "bitwise_and(Tensor self, Tensor|Scalar other) -> Tensor",
    .torch = {"aten.bitwise_and.Tensor", "aten.bitwise_and.Scalar"},
    .promote = Promote::kDefault,
    .dtypes = static_cast<DTypeSet>(kBools | kInts),
    .shape = ElementwiseShape,
    .lower = Binary<loop::Op::kAnd>,
    .no_grad = "the result is not a float",
    .ref = [](const RefArgs& x) -> double { return static_cast<int64_t>(x[0]) & static_cast<int64_t>(x[1]); },
    .samples = {{-100, 100}},
};

KILN_OP(bitwise_or) = {
    .schema = "bitwise_or(Tensor self, Tensor|Scalar other) -> Tensor",
    .torch = {"aten.bitwise_or.Tensor", "aten.bitwise_or.Scalar"},
    .promote = Promote::kDefault,
    .dtypes = static_cast<DTypeSet>(kBools | kInts),
    .shape = ElementwiseShape,
    .lower = Binary<loop::Op::kOr>,
    .no_grad = "the result is not a float",
    .ref = [](const RefArgs& x) -> double { return static_cast<int64_t>(x[0]) | static_cast<int64_t>(x[1]); },
    .samples = {{-100, 100}},
};

KILN_OP(bitwise_xor) = {
    .schema = "bitwise_xor(Tensor self, Tensor|Scalar other) -> Tensor",
    .torch = {"aten.bitwise_xor.Tensor", "aten.bitwise_xor.Scalar"},
    .promote = Promote::kDefault,
    .dtypes = static_cast<DTypeSet>(kBools | kInts),
    .shape = ElementwiseShape,
    .lower = Binary<loop::Op::kXor>,
    .no_grad = "the result is not a float",
    .ref = [](const RefArgs& x) -> double { return static_cast<int64_t>(x[0]) ^ static_cast<int64_t>(x[1]); },
    .samples = {{-100, 100}},
};

KILN_OP(bitwise_not) = {
    .schema = "bitwise_not(Tensor self) -> Tensor",
    .torch = {"aten.bitwise_not.default"},
    .promote = Promote::kDefault,
    .dtypes = static_cast<DTypeSet>(kBools | kInts),
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kNot>,
    .no_grad = "the result is not a float",
    .ref = [](const RefArgs& x) -> double {
      return x.call.type(0).dtype == DType::kBool ? x[0] == 0 : ~static_cast<int64_t>(x[0]);
    },
    .samples = {{-100, 100}},
};

// The common dtype is that of `self` and `other` alone, and the condition is a bool of any shape that broadcasts.
KILN_OP(where) = {
    .schema = "where(Tensor condition, Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    .torch = {"aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar"},
    .promote = Promote::kResult,
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      absl::StatusOr<TypeList> types = ElementwiseShape(call);
      static constexpr size_t kBranches[] = {1, 2};
      if (types.ok()) (*types)[0].dtype = CommonDType(call, kBranches);
      return types;
    },
    .lower = [](Element& e) -> Results { return {Condition(e, 0).Select(Operand(e, 1), Operand(e, 2)).id()}; },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      Grads grads = {kNoValue};
      if (c.is_tensor(1)) grads.push_back(SumToOperand(b, b.where(c.value(0), d[0], 0.0), c.type(1)));
      if (c.is_tensor(2)) grads.push_back(SumToOperand(b, b.where(c.value(0), 0.0, d[0]), c.type(2)));
      return grads;
    },
    .ref = [](const RefArgs& x) { return x[0] != 0 ? x[1] : x[2]; },
    .samples = {{-1, 1}, {-1, 1, true}},
};

KILN_OP(masked_fill) = {
    .schema = "masked_fill(Tensor self, Tensor mask, Tensor|Scalar value) -> Tensor",
    .torch = {"aten.masked_fill.Scalar", "aten.masked_fill.Tensor"},
    .promote = Promote::kResult,
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      const TensorType &self = call.type(0), &mask = call.type(1);
      absl::StatusOr<std::vector<Sym>> sizes = BroadcastSizes(call.syms(), self.sizes, mask.sizes);
      if (!sizes.ok()) return sizes.status();
      return TypeList{ContiguousType(call.syms(), self.dtype, self.device, *std::move(sizes))};
    },
    .lower = [](Element& e) -> Results { return {Condition(e, 1).Select(Operand(e, 2), Operand(e, 0)).id()}; },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      Grads grads = {SumToOperand(b, b.where(c.value(1), 0.0, d[0]), c.type(0)), kNoValue};
      if (c.is_tensor(2)) grads.push_back(SumToOperand(b, b.where(c.value(1), d[0], 0.0), c.type(2)));
      return grads;
    },
    .ref = [](const RefArgs& x) { return x[1] != 0 ? x[2] : x[0]; },
    .samples = {{-1, 1, false, "value=7"}, {-1, 1, true, "value=2"}},
};

KILN_OP(maximum) = {
    .schema = "maximum(Tensor self, Tensor other) -> Tensor",
    .torch = {"aten.maximum.default"},
    .promote = Promote::kDefault,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {Larger(Operand(e, 0), Operand(e, 1)).id()}; },
    .vjp = ExtremeVjp,
    .ref = [](const RefArgs& x) { return RefMax(x[0], x[1]); },
    .samples = {{-10, 10}, {-1, 1, true}},
};

KILN_OP(minimum) = {
    .schema = "minimum(Tensor self, Tensor other) -> Tensor",
    .torch = {"aten.minimum.default"},
    .promote = Promote::kDefault,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {Smaller(Operand(e, 0), Operand(e, 1)).id()}; },
    .vjp = ExtremeVjp,
    .ref = [](const RefArgs& x) { return RefMin(x[0], x[1]); },
    .samples = {{-10, 10}, {-1, 1, true}},
};

// min(max(self, min), max): where the bounds cross, the upper one holds.
KILN_OP(clamp) = {
    .schema = "clamp(Tensor self, Tensor|Scalar? min=None, Tensor|Scalar? max=None) -> Tensor",
    .torch = {"aten.clamp.default", "aten.clamp.Tensor"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .supports = Known<1, 2>,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      Expr x = Operand(e, 0);
      if (!e.call().is_none(1)) x = AtLeast(e, x, 1);
      if (!e.call().is_none(2)) x = AtMost(e, x, 2);
      return {x.id()};
    },
    .ref = [](const RefArgs& x) { return RefMin(RefMax(x[0], x[1]), x[2]); },
    .samples = {{-10, 10, false, "min=-3, max=4"}, {-10, 10, false, "min=5, max=-5"}, {-1, 1, true, "min=-3, max=4"}},
};

KILN_OP(clamp_min) = {
    .schema = "clamp_min(Tensor self, Tensor|Scalar min) -> Tensor",
    .torch = {"aten.clamp_min.default", "aten.clamp_min.Tensor"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .supports = Known<1>,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {AtLeast(e, Operand(e, 0), 1).id()}; },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      Grads grads = {SumToOperand(b, b.where(b.ge(c.value(0), c.arg(1)), d[0], 0.0), c.type(0))};
      if (c.is_tensor(1)) grads.push_back(SumToOperand(b, b.where(b.lt(c.value(0), c.value(1)), d[0], 0.0), c.type(1)));
      return grads;
    },
    .ref = [](const RefArgs& x) { return RefMax(x[0], x[1]); },
    .samples = {{-10, 10, false, "min=3"}, {-10, 10}, {-1, 1, true}},
};

KILN_OP(clamp_max) = {
    .schema = "clamp_max(Tensor self, Tensor|Scalar max) -> Tensor",
    .torch = {"aten.clamp_max.default", "aten.clamp_max.Tensor"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .supports = Known<1>,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {AtMost(e, Operand(e, 0), 1).id()}; },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      Grads grads = {SumToOperand(b, b.where(b.le(c.value(0), c.arg(1)), d[0], 0.0), c.type(0))};
      if (c.is_tensor(1)) grads.push_back(SumToOperand(b, b.where(b.gt(c.value(0), c.value(1)), d[0], 0.0), c.type(1)));
      return grads;
    },
    .ref = [](const RefArgs& x) { return RefMin(x[0], x[1]); },
    .samples = {{-10, 10, false, "max=3"}, {-10, 10}, {-1, 1, true}},
};

}  // namespace kiln
