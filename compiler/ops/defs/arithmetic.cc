// Sums, differences, products, quotients and their kin.
//
// Where eager's CPU kernels contract a product and a sum (add with alpha, addcmul, lerp) the formula has an Fma; where
// they do not (addcdiv) it has none: found by comparing bits on random operands.
#include <cmath>

#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_builder.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/promote.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/ops/vjp_rules.h"

namespace kiln {
namespace {

// x + sign * alpha * y. Eager rounds alpha to the operands' dtype and fuses the product into the sum; integers wrap.
Expr AddScaled(Element& e, Expr x, Expr y, size_t alpha_arg, int sign) {
  if (Parameter(e, alpha_arg) == 1) return sign > 0 ? x + y : x - y;
  const Expr alpha = RoundedNumber(e, alpha_arg);
  if (!IsFloat(e.compute())) return sign > 0 ? x + alpha * y : x - alpha * y;
  return Fma(y, sign > 0 ? alpha : -alpha, x);
}

Results LowerAdd(Element& e) {
  const Expr x = Operand(e, 0), y = Operand(e, 1);
  if (e.compute() == DType::kBool) return {Parameter(e, 2) != 0 ? (x | y).id() : x.id()};
  return {AddScaled(e, x, y, 2, 1).id()};
}

bool IsNonzeroIntegerDivisor(const Call& call, size_t i) {
  if (call.is_tensor(i) || call.IsFloatNumber(i) || call.is_none(i)) return false;
  const int64_t divisor = call.ConstInt(i);
  return divisor != 0 && divisor != -1;
}

// Integers divided towards minus infinity. The divisor is a constant other than 0 and -1, so nothing traps or
// overflows.
Expr FloorDivide(Expr x, Expr y) {
  const Expr quotient = x / y, remainder = x.Apply(loop::Op::kRem, y);
  const Expr below = (remainder != 0.0) & ((remainder < 0.0) != (y < 0.0));
  return below.Select(quotient - 1.0, quotient);
}

}  // namespace

KILN_OP(add) = {
    .schema = "add(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
    .torch = {"aten.add.Tensor", "aten.add.Scalar"},
    .promote = Promote::kDefault,
    .supports = Known<2>,
    .shape = ElementwiseShape,
    .lower = LowerAdd,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      Grads grads = {SumToOperand(b, d[0], c.type(0))};
      if (c.is_tensor(1)) grads.push_back(SumToOperand(b, b.mul(d[0], c.arg(2)), c.type(1)));
      return grads;
    },
    .ref = [](const RefArgs& x) { return std::fma(x[2], x[1], x[0]); },
    .samples = {{-10, 10}, {-10, 10, false, "alpha=3"}, {-1, 1, true}},
};

KILN_OP(sub) = {
    .schema = "sub(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
    .torch = {"aten.sub.Tensor", "aten.sub.Scalar"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .supports = Known<2>,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {AddScaled(e, Operand(e, 0), Operand(e, 1), 2, -1).id()}; },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      Grads grads = {SumToOperand(b, d[0], c.type(0))};
      if (c.is_tensor(1)) grads.push_back(SumToOperand(b, b.neg(b.mul(d[0], c.arg(2))), c.type(1)));
      return grads;
    },
    .ref = [](const RefArgs& x) { return std::fma(-x[2], x[1], x[0]); },
    .samples = {{-10, 10}, {-10, 10, false, "alpha=3"}, {-1, 1, true}},
};

KILN_OP(rsub) = {
    .schema = "rsub(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
    .torch = {"aten.rsub.Scalar", "aten.rsub.Tensor"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .supports = Known<2>,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {AddScaled(e, Operand(e, 1), Operand(e, 0), 2, -1).id()}; },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      Grads grads = {SumToOperand(b, b.neg(b.mul(d[0], c.arg(2))), c.type(0))};
      if (c.is_tensor(1)) grads.push_back(SumToOperand(b, d[0], c.type(1)));
      return grads;
    },
    .ref = [](const RefArgs& x) { return std::fma(-x[2], x[0], x[1]); },
    .samples = {{-10, 10}, {-10, 10, false, "alpha=3"}, {-1, 1, true}},
};

KILN_OP(mul) = {
    .schema = "mul(Tensor self, Tensor|Scalar other) -> Tensor",
    .torch = {"aten.mul.Tensor", "aten.mul.Scalar"},
    .promote = Promote::kDefault,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0), y = OpmathOperand(e, 1);
      return {e.compute() == DType::kBool ? (x & y).id() : (x * y).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      Grads grads = {SumToOperand(b, b.mul(d[0], c.arg(1)), c.type(0))};
      if (c.is_tensor(1)) grads.push_back(SumToOperand(b, b.mul(d[0], c.value(0)), c.type(1)));
      return grads;
    },
    .ref = [](const RefArgs& x) { return x[0] * x[1]; },
    .samples = {{-10, 10}, {-1, 1, true}},
};

// Division is division: never a product with the reciprocal.
KILN_OP(div) = {
    .schema = "div(Tensor self, Tensor|Scalar other) -> Tensor",
    .torch = {"aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {(Operand(e, 0) / OpmathOperand(e, 1)).id()}; },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      Grads grads = {SumToOperand(b, b.div(d[0], c.arg(1)), c.type(0))};
      if (c.is_tensor(1)) {
        const ValueId by = b.div(b.mul(d[0], ResultOf(c)), c.value(1));
        grads.push_back(SumToOperand(b, b.neg(by), c.type(1)));
      }
      return grads;
    },
    .ref = [](const RefArgs& x) { return x[0] / x[1]; },
    .samples = {{-10, 10}, {-1, 1, true}},
};

// Integers by a known divisor only: eager raises on zero, and floats take its fmod-based formula.
KILN_OP(floor_divide) = {
    .schema = "floor_divide(Tensor self, Tensor|Scalar other) -> Tensor",
    .torch = {"aten.floor_divide.default", "aten.floor_divide.Scalar"},
    .promote = Promote::kDefault,
    .dtypes = kInts,
    .supports = [](const Call& call) { return IsNonzeroIntegerDivisor(call, 1); },
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {FloorDivide(Operand(e, 0), Operand(e, 1)).id()}; },
    .no_grad = "zero almost everywhere",
    .ref = [](const RefArgs& x) { return std::floor(x[0] / x[1]); },
    .samples = {{-100, 100, false, "other=7"}, {-100, 100, false, "other=-3"}},
};

KILN_OP(remainder) = {
    .schema = "remainder(Tensor self, Tensor|Scalar other) -> Tensor",
    .torch = {"aten.remainder.Scalar", "aten.remainder.Tensor"},
    .promote = Promote::kDefault,
    .dtypes = kInts,
    .supports = [](const Call& call) { return IsNonzeroIntegerDivisor(call, 1); },
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0), y = Operand(e, 1);
      return {(x - FloorDivide(x, y) * y).id()};
    },
    .no_grad = "integers have none",
    .ref = [](const RefArgs& x) { return x[0] - std::floor(x[0] / x[1]) * x[1]; },
    .samples = {{-100, 100, false, "other=7"}, {-100, 100, false, "other=-3"}},
};

KILN_OP(div_mode) = {
    .schema = "div_mode(Tensor self, Tensor|Scalar other, *, str? rounding_mode) -> Tensor",
    .torch = {"aten.div.Tensor_mode", "aten.div.Scalar_mode"},
    .promote = Promote::kDefault,
    .dtypes = kInts,
    .supports =
        [](const Call& call) {
          const std::string_view mode = call.String(2);
          return IsNonzeroIntegerDivisor(call, 1) && (mode == "floor" || mode == "trunc");
        },
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      absl::StatusOr<TypeList> types = ElementwiseShape(call);
      const bool integer = types.ok() && !IsFloat((*types)[0].dtype) && !IsComplex((*types)[0].dtype);
      if (integer && call.is_none(2)) (*types)[0].dtype = kDefaultFloat;
      return types;
    },
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0), y = Operand(e, 1);
      return {e.call().String(2) == "trunc" ? (x / y).id() : FloorDivide(x, y).id()};
    },
    .ref =
        [](const RefArgs& x) {
          return x.call.String(2) == "trunc" ? std::trunc(x[0] / x[1]) : std::floor(x[0] / x[1]);
        },
    .samples = {{-100, 100, false, "other=7, rounding_mode='floor'"},
                {-100, 100, false, "other=-3, rounding_mode='trunc'"}},
};

KILN_OP(neg) = {
    .schema = "neg(Tensor self) -> Tensor",
    .torch = {"aten.neg.default"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kNeg>,
    .vjp = [](GraphBuilder& graph, const Call&, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.neg(d[0])};
    },
    .ref = [](const RefArgs& x) { return -x[0]; },
    .samples = {{-10, 10}, {-1, 1, true}},
};

KILN_OP(abs) = {
    .schema = "abs(Tensor self) -> Tensor",
    .torch = {"aten.abs.default"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kAbs>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.mul(d[0], b.sign(c.value(0)))};
    },
    .ref = [](const RefArgs& x) { return std::fabs(x[0]); },
    .samples = {{-10, 10}, {-1, 1, true}},
};

KILN_OP(reciprocal) = {
    .schema = "reciprocal(Tensor self) -> Tensor",
    .torch = {"aten.reciprocal.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {(1.0 / Operand(e, 0)).id()}; },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.neg(b.mul(d[0], b.mul(ResultOf(c), ResultOf(c))))};
    },
    .ref = [](const RefArgs& x) { return 1 / x[0]; },
    .samples = {{-10, 10}, {-1, 1, true}},
};

// self + value * tensor1 * tensor2
KILN_OP(addcmul) = {
    .schema = "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    .torch = {"aten.addcmul.default"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr self = Operand(e, 0), t1 = NumberAs(e, 3, e.compute()) * Operand(e, 1), t2 = Operand(e, 2);
      return {IsFloat(e.compute()) ? Fma(t1, t2, self).id() : (self + t1 * t2).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      const ValueId scaled = b.mul(d[0], c.arg(3));
      return {SumToOperand(b, d[0], c.type(0)), SumToOperand(b, b.mul(scaled, c.value(2)), c.type(1)),
              SumToOperand(b, b.mul(scaled, c.value(1)), c.type(2))};
    },
    .ref = [](const RefArgs& x) { return x[0] + x[3] * x[1] * x[2]; },
    .samples = {{-5, 5}, {-5, 5, false, "value=3"}},
    .budget = {.ulp = 2, .floor = 75},
};

KILN_OP(addcdiv) = {
    .schema = "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    .torch = {"aten.addcdiv.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      return {(Operand(e, 0) + NumberAs(e, 3, e.compute()) * Operand(e, 1) / Operand(e, 2)).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      const ValueId by = b.div(b.mul(d[0], c.arg(3)), c.value(2));
      const ValueId ratio = b.div(c.value(1), c.value(2));
      return {SumToOperand(b, d[0], c.type(0)), SumToOperand(b, by, c.type(1)),
              SumToOperand(b, b.neg(b.mul(by, ratio)), c.type(2))};
    },
    .ref = [](const RefArgs& x) { return x[0] + x[3] * x[1] / x[2]; },
    .samples = {{1, 5}, {1, 5, false, "value=-0.3"}},
    .budget = {.ulp = 2, .floor = 5},
};

// From the nearer end, so that weight 1 gives `end` exactly.
KILN_OP(lerp) = {
    .schema = "lerp(Tensor self, Tensor end, Tensor|Scalar weight) -> Tensor",
    .torch = {"aten.lerp.Scalar", "aten.lerp.Tensor"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .supports = Known<2>,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const bool tensor = e.call().is_tensor(2);
      const Expr self = Operand(e, 0), end = Operand(e, 1),
                 weight = tensor ? Operand(e, 2) : NumberAs(e, 2, e.compute());
      const Expr span = end - self;
      const Expr from_self = Fma(weight, span, self), from_end = Fma(-span, 1.0 - weight, end);
      if (!tensor) return {std::fabs(Parameter(e, 2)) < 0.5 ? from_self.id() : from_end.id()};
      return {(Abs(weight) < 0.5).Select(from_self, from_end).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      const ValueId end = b.mul(d[0], c.arg(2));
      Grads grads = {SumToOperand(b, b.sub(d[0], end), c.type(0)), SumToOperand(b, end, c.type(1))};
      if (c.is_tensor(2)) grads.push_back(SumToOperand(b, b.mul(d[0], b.sub(c.value(1), c.value(0))), c.type(2)));
      return grads;
    },
    .ref = [](const RefArgs& x) { return x[0] + x[2] * (x[1] - x[0]); },
    .samples = {{-5, 5, false, "weight=0.25"}, {-5, 5, false, "weight=0.75"}, {0, 1}},
    .budget = {.ulp = 3, .floor = 10},
};

}  // namespace kiln
