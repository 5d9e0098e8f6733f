// Signs, fractions, and what is done about NaN and infinities.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/ops/vjp_rules.h"

namespace kiln {
namespace {

absl::StatusOr<TypeList> BoolLike(const Call& call) {
  absl::StatusOr<TypeList> types = LikeArg<0>(call);
  if (types.ok()) (*types)[0].dtype = DType::kBool;
  return types;
}

Results IsInfinity(Element& e, double which) {
  const Expr x = Operand(e, 0);
  if (!IsFloat(x.type())) return {e.b().ConstBits(DType::kBool, 0)};
  return {(x == x.Const(which)).id()};
}

// The number that is not NaN, if one is.
Expr Extreme(Expr x, Expr y, Expr second_is_it) {
  return (y != y).Select(x, (x != x).Select(y, second_is_it.Select(y, x)));
}

double LargestOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 65504;
    case DType::kBFloat16:
      return std::ldexp(2 - std::ldexp(1, -7), 127);
    case DType::kFloat32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

}  // namespace

// Of NaN 0, as in eager.
KILN_OP(sign) = {
    .schema = "sign(Tensor self) -> Tensor",
    .torch = {"aten.sign.default", "aten.sgn.default"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0), zero = x.Const(0), one = x.Const(1);
      if (IsUnsignedInt(x.type())) return {(x == zero).Select(zero, one).id()};
      return {(x > zero).Select(one, (x < zero).Select(-one, zero)).id()};
    },
    .no_grad = "zero almost everywhere",
    .ref = [](const RefArgs& x) -> double { return (x[0] > 0) - (x[0] < 0); },
    .samples = {{-10, 10}, {-1, 1, true}},
};

KILN_OP(signbit) = {
    .schema = "signbit(Tensor self) -> Tensor",
    .torch = {"aten.signbit.default"},
    .promote = Promote::kNone,
    .supports = [](const Call& call) { return call.type(0).dtype != DType::kBool; },
    .shape = BoolLike,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0);
      if (IsUnsignedInt(x.type())) return {e.b().ConstBits(DType::kBool, 0)};
      return {((IsFloat(x.type()) ? x.Const(1).Apply(loop::Op::kCopysign, x) : x) < 0.0).id()};
    },
    .no_grad = "the result is a bool",
    .ref = [](const RefArgs& x) -> double { return std::signbit(x[0]); },
    .samples = {{-10, 10}},
};

KILN_OP(frac) = {
    .schema = "frac(Tensor self) -> Tensor",
    .torch = {"aten.frac.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0);
      return {(x - x.Apply(loop::Op::kTrunc)).id()};
    },
    .vjp = [](GraphBuilder&, const Call&, std::span<const ValueId> d) -> Grads { return {d[0]}; },
    .ref = [](const RefArgs& x) { return x[0] - std::trunc(x[0]); },
    .samples = {{-10, 10}, {-1, 1, true}},
};

KILN_OP(isposinf) = {
    .schema = "isposinf(Tensor self) -> Tensor",
    .torch = {"aten.isposinf.default"},
    .promote = Promote::kNone,
    .shape = BoolLike,
    .lower = [](Element& e) { return IsInfinity(e, INFINITY); },
    .no_grad = "the result is a bool",
    .ref = [](const RefArgs& x) -> double { return std::isinf(x[0]) && x[0] > 0; },
    .samples = {{-1, 1, true}},
};

KILN_OP(isneginf) = {
    .schema = "isneginf(Tensor self) -> Tensor",
    .torch = {"aten.isneginf.default"},
    .promote = Promote::kNone,
    .shape = BoolLike,
    .lower = [](Element& e) { return IsInfinity(e, -INFINITY); },
    .no_grad = "the result is a bool",
    .ref = [](const RefArgs& x) -> double { return std::isinf(x[0]) && x[0] < 0; },
    .samples = {{-1, 1, true}},
};

// Infinities become the dtype's extremes where nothing else is said.
KILN_OP(nan_to_num) = {
    .schema = "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
    .torch = {"aten.nan_to_num.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .supports = Known<1, 2, 3>,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Call& call = e.call();
      const double largest = LargestOf(call.result().dtype);
      const Expr x = Operand(e, 0);
      const Expr low = (x == -INFINITY).Select(x.Const(call.Number(3, -largest)), x);
      const Expr high = (x == INFINITY).Select(x.Const(call.Number(2, largest)), low);
      return {(x != x).Select(x.Const(call.Number(1, 0)), high).id()};
    },
    .ref = [](const RefArgs& x) { return std::isnan(x[0])   ? 0.5
                                         : std::isinf(x[0]) ? (x[0] > 0 ? 2 : -3)
                                                            : x[0]; },
    .samples = {{-1, 1, true, "nan=0.5, posinf=2, neginf=-3"}},
};

KILN_OP(fmax) = {
    .schema = "fmax(Tensor self, Tensor other) -> Tensor",
    .torch = {"aten.fmax.default"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0), y = Operand(e, 1);
      return {Extreme(x, y, x < y).id()};
    },
    .ref = [](const RefArgs& x) { return std::fmax(x[0], x[1]); },
    .samples = {{-10, 10}, {-1, 1, true}},
};

KILN_OP(fmin) = {
    .schema = "fmin(Tensor self, Tensor other) -> Tensor",
    .torch = {"aten.fmin.default"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0), y = Operand(e, 1);
      return {Extreme(x, y, y < x).id()};
    },
    .ref = [](const RefArgs& x) { return std::fmin(x[0], x[1]); },
    .samples = {{-10, 10}, {-1, 1, true}},
};

KILN_OP(copysign) = {
    .schema = "copysign(Tensor self, Tensor other) -> Tensor",
    .torch = {"aten.copysign.Tensor"},
    .promote = Promote::kIntToFloat,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = Binary<loop::Op::kCopysign>,
    .ref = [](const RefArgs& x) { return std::copysign(x[0], x[1]); },
    .samples = {{-10, 10}},
};

// 0 below zero and of NaN, 1 above, and `values` at zero.
KILN_OP(heaviside) = {
    .schema = "heaviside(Tensor self, Tensor values) -> Tensor",
    .torch = {"aten.heaviside.default"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0), zero = x.Const(0);
      return {(x == zero).Select(Operand(e, 1), (x > zero).Select(x.Const(1), zero)).id()};
    },
    .no_grad = "not differentiable in torch",
    .ref = [](const RefArgs& x) { return x[0] == 0  ? x[1]
                                         : x[0] > 0 ? 1
                                                    : 0; },
    .samples = {{-10, 10}, {-1, 1, true}},
};

}  // namespace kiln
