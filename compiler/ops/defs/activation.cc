// Activations. Their backwards are in activation_backward.cc.
#include <cmath>
#include <numbers>

#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_builder.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/ops/vjp_rules.h"

namespace kiln {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// min(max(x + 3, 0), 6)
Expr ReluSix(Expr x) {
  const Expr shifted = x + 3.0;
  return ClampAbove(ClampBelow(shifted, x.Const(0)), x.Const(6));
}

Results LowerGelu(Element& e) {
  const Expr x = Operand(e, 0);
  if (e.call().String(1) == "tanh") {
    const Expr inner = (std::numbers::sqrt2 * std::numbers::inv_sqrtpi) * (x + 0.044715 * (x * x * x));
    return {(0.5 * x * (1.0 + Tanh(inner))).id()};
  }
  return {(x * 0.5 * (1.0 + Erf(x * (std::numbers::sqrt2 / 2)))).id()};
}

double RefGelu(const RefArgs& x) {
  const double v = x[0];
  // erfc keeps its accuracy where 1 + erf cancels.
  if (x.call.String(1) != "tanh") return v * 0.5 * std::erfc(-v * std::numbers::sqrt2 / 2);
  const double inner = std::numbers::sqrt2 * std::numbers::inv_sqrtpi * (v + 0.044715 * v * v * v);
  return v * Sigmoid(2 * inner);
}

}  // namespace

KILN_OP(relu) = {
    .schema = "relu(Tensor self) -> Tensor",
    .torch = {"aten.relu.default"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0);
      return {ClampBelow(x, x.Const(0)).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.threshold_backward(d[0], c.value(0), 0.0)};
    },
    .ref = [](const RefArgs& x) { return std::isnan(x[0]) || x[0] > 0 ? x[0] : 0; },
    .samples = {{-1, 1}, {-1, 1, true}},
};

KILN_OP(sigmoid) = {
    .schema = "sigmoid(Tensor self) -> Tensor",
    .torch = {"aten.sigmoid.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {(1.0 / (1.0 + Exp(-Operand(e, 0)))).id()}; },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.sigmoid_backward(d[0], ResultOf(c))};
    },
    .ref = [](const RefArgs& x) { return Sigmoid(x[0]); },
    .samples = {{-20, 20}, {-1, 1, true}},
    .budget = {.ulp = 4},
};

KILN_OP(tanh) = {
    .schema = "tanh(Tensor self) -> Tensor",
    .torch = {"aten.tanh.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kTanh>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.tanh_backward(d[0], ResultOf(c))};
    },
    .ref = [](const RefArgs& x) { return std::tanh(x[0]); },
    .samples = {{-10, 10}, {-0.01, 0.01}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

KILN_OP(gelu) = {
    .schema = "gelu(Tensor self, *, str approximate='none') -> Tensor",
    .torch = {"aten.gelu.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = LowerGelu,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.gelu_backward(d[0], c.value(0), c.arg(1))};
    },
    .ref = RefGelu,
    .samples = {{-6, 6}, {-6, 6, false, "approximate='tanh'"}},
    .budget = {.ulp = 8, .floor = 1},
};

KILN_OP(silu) = {
    .schema = "silu(Tensor self) -> Tensor",
    .torch = {"aten.silu.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0);
      return {(x / (1.0 + Exp(-x))).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.silu_backward(d[0], c.value(0))};
    },
    .ref = [](const RefArgs& x) { return x[0] * Sigmoid(x[0]); },
    .samples = {{-20, 20}},
    .budget = {.ulp = 4},
};

KILN_OP(leaky_relu) = {
    .schema = "leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor",
    .torch = {"aten.leaky_relu.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0);
      return {(x > 0.0).Select(x, x * NumberAs(e, 1, e.compute())).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.leaky_relu_backward(d[0], c.value(0), c.arg(1), false)};
    },
    .ref = [](const RefArgs& x) { return x[0] > 0 ? x[0] : x[0] * x[1]; },
    .samples = {{-5, 5}, {-5, 5, false, "negative_slope=0.25"}, {-1, 1, true}},
    .budget = {.ulp = 1.5},
};

KILN_OP(elu) = {
    .schema = "elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
    .torch = {"aten.elu.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0), scale = NumberAs(e, 2, e.compute());
      const Expr negative = Expm1(x * NumberAs(e, 3, e.compute())) * (NumberAs(e, 1, e.compute()) * scale);
      return {(x < 0.0).Select(negative, x * scale).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.elu_backward(d[0], c.arg(1), c.arg(2), c.arg(3), false, c.value(0))};
    },
    .ref = [](const RefArgs& x) { return x[0] < 0 ? std::expm1(x[0] * x[3]) * x[1] * x[2] : x[0] * x[2]; },
    .samples = {{-5, 5}, {-0.01, 0.01}, {-5, 5, false, "alpha=1.5, scale=2, input_scale=0.5"}},
    .budget = {.ulp = 8},
};

KILN_OP(mish) = {
    .schema = "mish(Tensor self) -> Tensor",
    .torch = {"aten.mish.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0);
      return {(x * Tanh(Log1p(Exp(x)))).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.mish_backward(d[0], c.value(0))};
    },
    .ref = [](const RefArgs& x) { return x[0] * std::tanh(std::log1p(std::exp(x[0]))); },
    .samples = {{-15, 15}},
    .budget = {.ulp = 8},
};

// elu with an input scale of 1 / alpha.
KILN_OP(celu) = {
    .schema = "celu(Tensor self, Scalar alpha=1.) -> Tensor",
    .torch = {"aten.celu.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .supports = [](const Call& call) { return Known<1>(call) && call.Number(1, 1) != 0; },
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0);
      const double alpha = e.call().Number(1, 1);
      return {(x < 0.0).Select(Expm1(x * (1 / alpha)) * alpha, x).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.elu_backward(d[0], c.arg(1), 1.0, 1 / c.Number(1, 1), false, c.value(0))};
    },
    .ref = [](const RefArgs& x) { return x[0] < 0 ? std::expm1(x[0] / x[1]) * x[1] : x[0]; },
    .samples = {{-5, 5}, {-0.01, 0.01}, {-5, 5, false, "alpha=1.5"}},
    .budget = {.ulp = 8},
};

KILN_OP(prelu) = {
    .schema = "prelu(Tensor self, Tensor weight) -> Tensor",
    .torch = {"aten._prelu_kernel.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0), weight = Operand(e, 1);
      return {(x > 0.0).Select(x, weight * x).id()};
    },
    .ref = [](const RefArgs& x) { return x[0] > 0 ? x[0] : x[1] * x[0]; },
    .samples = {{-5, 5}, {-1, 1, true}},
};

KILN_OP(softplus) = {
    .schema = "softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
    .torch = {"aten.softplus.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0), beta = NumberAs(e, 1, e.compute()), scaled = x * beta;
      return {(scaled > NumberAs(e, 2, e.compute())).Select(x, Log1p(Exp(scaled)) / beta).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.softplus_backward(d[0], c.value(0), c.arg(1), c.arg(2))};
    },
    .ref = [](const RefArgs& x) { return x[0] * x[1] > x[2] ? x[0] : std::log1p(std::exp(x[0] * x[1])) / x[1]; },
    .samples = {{-15, 15}, {-15, 15, false, "beta=2, threshold=5"}},
    .budget = {.ulp = 8},
};

KILN_OP(hardsigmoid) = {
    .schema = "hardsigmoid(Tensor self) -> Tensor",
    .torch = {"aten.hardsigmoid.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {(ReluSix(Operand(e, 0)) / 6.0).id()}; },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.hardsigmoid_backward(d[0], c.value(0))};
    },
    .ref = [](const RefArgs& x) { return std::isnan(x[0]) ? x[0] : std::fmin(std::fmax(x[0] + 3, 0), 6) / 6; },
    .samples = {{-5, 5}, {-1, 1, true}},
    .budget = {.ulp = 2, .floor = 1},
};

KILN_OP(hardswish) = {
    .schema = "hardswish(Tensor self) -> Tensor",
    .torch = {"aten.hardswish.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0);
      return {(x * ReluSix(x) / 6.0).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.hardswish_backward(d[0], c.value(0))};
    },
    .ref = [](const RefArgs& x) { return std::isnan(x[0]) ? x[0] : x[0] * std::fmin(std::fmax(x[0] + 3, 0), 6) / 6; },
    .samples = {{-5, 5}},
    .budget = {.ulp = 4, .floor = 1},
};

KILN_OP(hardtanh) = {
    .schema = "hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
    .torch = {"aten.hardtanh.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      return {ClampAbove(ClampBelow(Operand(e, 0), RoundedNumber(e, 1)), RoundedNumber(e, 2)).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.hardtanh_backward(d[0], c.value(0), c.arg(1), c.arg(2))};
    },
    .ref = [](const RefArgs& x) { return std::isnan(x[0]) ? x[0] : std::fmin(std::fmax(x[0], x[1]), x[2]); },
    .samples = {{-5, 5}, {-9, 9, false, "min_val=0, max_val=6"}, {-1, 1, true}},
};

KILN_OP(threshold) = {
    .schema = "threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
    .torch = {"aten.threshold.default"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0);
      return {(x <= NumberAs(e, 1, e.compute())).Select(NumberAs(e, 2, e.compute()), x).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.threshold_backward(d[0], c.value(0), c.arg(1))};
    },
    .ref = [](const RefArgs& x) { return x[0] <= x[1] ? x[2] : x[0]; },
    .samples = {{-5, 5, false, "threshold=1, value=-2"}, {-1, 1, true, "threshold=0, value=3"}},
};

// The number stays in f32 beside bf16 and f16; between the bounds the zero is positive, as in eager's vector kernel
// (its scalar one, for the last elements, keeps the sign).
KILN_OP(softshrink) = {
    .schema = "softshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    .torch = {"aten.softshrink.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    // Eager raises for a negative one, NaN, and what its dtype cannot hold; 65504 is in range of all.
    .supports = [](const Call& call) { return Known<1>(call) && call.Number(1) >= 0 && call.Number(1) <= 65504; },
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0), lambd = NumberAs(e, 1, e.compute());
      const Expr inside = (x != x).Select(x, x.Const(0));
      return {(x > lambd).Select(x - lambd, (x < -lambd).Select(x + lambd, inside)).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.softshrink_backward(d[0], c.value(0), c.arg(1))};
    },
    .ref = [](const RefArgs& x) { return std::isnan(x[0]) ? x[0] : x[0] - std::fmin(std::fmax(x[0], -x[1]), x[1]); },
    .samples = {{-2, 2}, {-5, 5, false, "lambd=2"}, {-1, 1, true}, {-1, 1, true, "lambd=0"}},
};

}  // namespace kiln
