// Backwards of activations, as AOTAutograd calls them. Formulas in the order of eager's kernels; bf16 and f16 work in
// f32 and round once, where a comment does not say otherwise.
#include <cmath>
#include <numbers>

#include "compiler/loop/scalar.h"
#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_builder.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/promote.h"
#include "compiler/ops/registry.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/ops/vjp_rules.h"

namespace kiln {
namespace {

// Both operands are floats of the result's type, so that a bool of each element has their layout.
bool ReadsAlike(const Call& call) {
  return HasMeaning(call) && IsFloat(call.result().dtype) && call.type(0) == call.result() &&
         call.type(1) == call.result();
}

// A comparison's number is rounded to the tensor's dtype, a gradient's is not.
bool ComparesAlike(const Call& call, size_t number) {
  const DType dtype = call.result().dtype;
  const double x = call.Number(number);
  return dtype == ComputeDType(dtype) || loop::ToDouble(dtype, loop::FromDouble(dtype, x)) == x;
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

Results LowerGeluBackward(Element& e) {
  const Expr g = Operand(e, 0), x = Operand(e, 1);
  if (e.call().String(2) == "tanh") {
    constexpr double kBeta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, kKappa = 0.044715;
    const Expr square = x * x, inner = kBeta * (x + kKappa * (square * x)), tanh = Tanh(inner);
    const Expr left = 0.5 * x, right = 1.0 + tanh;
    const Expr left_derivative = 0.5 * right;
    const Expr inner_derivative = kBeta * (1.0 + (3 * kKappa) * square);
    const Expr right_derivative = left * (1.0 - tanh * tanh) * inner_derivative;
    return {(g * (left_derivative + right_derivative)).id()};
  }
  constexpr double kDensityAtZero = std::numbers::inv_sqrtpi / std::numbers::sqrt2;  // 1/sqrt(2*pi)
  const Expr cdf = 0.5 * (1.0 + Erf(x * (std::numbers::sqrt2 / 2)));
  const Expr pdf = kDensityAtZero * Exp(x * x * -0.5);
  return {(g * (cdf + x * pdf)).id()};
}

double RefGeluBackward(const RefArgs& x) {
  const double v = x[1];
  if (x.call.String(2) != "tanh") {
    const double pdf = std::exp(-v * v / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    return x[0] * (std::erfc(-v * std::numbers::sqrt2 / 2) / 2 + v * pdf);
  }
  const double beta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const double s = Sigmoid(2 * beta * (v + 0.044715 * v * v * v));
  return x[0] * (s + v * s * (1 - s) * 2 * beta * (1 + 3 * 0.044715 * v * v));
}

Results LowerSigmoidBackward(Element& e) {
  const Expr g = Operand(e, 0), y = Operand(e, 1);
  // Eager's f16 kernel, unlike that of bf16, rounds every step.
  const bool each_step = e.call().result().dtype == DType::kFloat16;
  const auto rounded = [&](Expr x) { return each_step ? RoundTo(DType::kFloat16, x) : x; };
  return {(rounded(g * rounded(1.0 - y)) * y).id()};
}

Results LowerEluBackward(Element& e) {
  const DType c = e.compute();
  const Expr g = Operand(e, 0), x = Operand(e, 5);
  const Expr scale = NumberAs(e, 2, c), input_scale = NumberAs(e, 3, c), negative_scale = NumberAs(e, 1, c) * scale;
  const bool is_result = e.call().Bool(4);
  const Expr negative =
      is_result ? g * input_scale * (x + negative_scale) : g * input_scale * negative_scale * Exp(x * input_scale);
  // NaN takes the negative branch, as in eager's vector kernel; its scalar one, for the last elements, has it
  // otherwise.
  return {(x > 0.0).Select(g * scale, negative).id()};
}

}  // namespace

// Also relu's: the gradient where self > threshold (or is NaN), else 0.
KILN_OP(threshold_backward) = {
    .schema = "threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
    .torch = {"aten.threshold_backward.default"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr g = Operand(e, 0), x = Operand(e, 1);
      return {(x <= NumberAs(e, 2, e.compute())).Select(g.Const(0), g).id()};
    },
    .narrow = [](GraphBuilder& g, const Call& call) -> Values {
      if (!ReadsAlike(call) || !ComparesAlike(call, 2)) return {};
      OpBuilder b(g);
      return {b.where(b.le(call.value(1), call.Number(2)), 0.0, call.value(0))};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.threshold_backward(d[0], c.value(1), c.arg(2)), kNoValue};
    },
    .ref = [](const RefArgs& x) { return x[1] <= x[2] ? 0 : x[0]; },
    .samples = {{-5, 5, false, "threshold=0"}, {-1, 1, true, "threshold=0"}, {-1, 1, true, "threshold=0.1"}},
};

KILN_OP(gelu_backward) = {
    .schema = "gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor",
    .torch = {"aten.gelu_backward.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = LowerGeluBackward,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      const ValueId x = c.value(1), square = b.mul(x, x);
      ValueId slope = kNoValue;  // of gelu's derivative
      if (c.String(2) == "tanh") {
        constexpr double kBeta = M_SQRT2 * M_2_SQRTPI / 2, kCubic = 0.044715;
        const ValueId inner = b.mul(b.mul(x, b.add(b.mul(square, kCubic), 1.0)), kBeta);
        const ValueId inner1 = b.mul(b.add(b.mul(square, 3 * kCubic), 1.0), kBeta),
                      inner2 = b.mul(x, 6 * kCubic * kBeta);
        const ValueId t = b.tanh(inner);
        const ValueId bend = b.sub(inner2, b.mul(b.mul(t, 2.0), b.mul(inner1, inner1)));
        slope = b.mul(b.rsub(b.mul(t, t), 1.0), b.add(inner1, b.mul(b.mul(x, 0.5), bend)));
      } else {
        const ValueId density = b.mul(b.exp(b.mul(square, -0.5)), M_SQRT1_2 * M_2_SQRTPI / 2);
        slope = b.mul(density, b.rsub(square, 2.0));
      }
      return {b.gelu_backward(d[0], x, c.arg(2)), b.mul(b.mul(d[0], c.value(0)), slope)};
    },
    .ref = RefGeluBackward,
    .samples = {{-5, 5}, {-5, 5, false, "approximate='tanh'"}},
    .budget = {.ulp = 8, .floor = 5},
};

KILN_OP(silu_backward) = {
    .schema = "silu_backward(Tensor grad_output, Tensor self) -> Tensor",
    .torch = {"aten.silu_backward.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    // Eager's compiler contracts 1 + x * (1 - sigmoid).
    .lower = [](Element& e) -> Results {
      const Expr g = Operand(e, 0), x = Operand(e, 1), sigmoid = 1.0 / (1.0 + Exp(-x));
      return {(g * sigmoid * Fma(x, 1.0 - sigmoid, x.Const(1))).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      const ValueId s = b.sigmoid(c.value(1)), rest = b.rsub(s, 1.0);
      const ValueId bend = b.add(b.mul(c.value(1), b.sub(rest, s)), 2.0);
      const ValueId slope = b.mul(b.mul(s, rest), bend);
      return {b.silu_backward(d[0], c.value(1)), b.mul(b.mul(d[0], c.value(0)), slope)};
    },
    .ref =
        [](const RefArgs& x) {
          const double s = Sigmoid(x[1]);
          return x[0] * s * (1 + x[1] * Sigmoid(-x[1]));
        },
    .samples = {{-10, 10}},
    .budget = {.ulp = 8, .floor = 10},
};

KILN_OP(tanh_backward) = {
    .schema = "tanh_backward(Tensor grad_output, Tensor output) -> Tensor",
    .torch = {"aten.tanh_backward.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    // Eager's compiler contracts 1 - y * y.
    .lower = [](Element& e) -> Results {
      const Expr g = Operand(e, 0), y = Operand(e, 1);
      return {(g * Fma(-y, y, y.Const(1))).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      const ValueId slope = b.mul(c.value(1), -2.0);
      return {b.tanh_backward(d[0], c.value(1)), b.mul(b.mul(d[0], c.value(0)), slope)};
    },
    .ref = [](const RefArgs& x) { return x[0] * (1 - x[1] * x[1]); },
    .samples = {{-1, 1}},
    .budget = {.ulp = 2, .floor = 1},
};

KILN_OP(sigmoid_backward) = {
    .schema = "sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor",
    .torch = {"aten.sigmoid_backward.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = LowerSigmoidBackward,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      const ValueId slope = b.rsub(b.mul(c.value(1), 2.0), 1.0);
      return {b.sigmoid_backward(d[0], c.value(1)), b.mul(b.mul(d[0], c.value(0)), slope)};
    },
    .ref = [](const RefArgs& x) { return x[0] * (1 - x[1]) * x[1]; },
    .samples = {{0, 1}},
    .budget = {.ulp = 3, .result_ulp = 2},
};

KILN_OP(leaky_relu_backward) = {
    .schema =
        "leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result) -> Tensor",
    .torch = {"aten.leaky_relu_backward.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr g = Operand(e, 0);
      return {(Operand(e, 1) > 0.0).Select(g, g * NumberAs(e, 2, e.compute())).id()};
    },
    .narrow = [](GraphBuilder& g, const Call& call) -> Values {
      if (!ReadsAlike(call)) return {};
      OpBuilder b(g);
      return {b.where(b.gt(call.value(1), 0.0), call.value(0), b.mul(call.value(0), call.Number(2)))};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.leaky_relu_backward(d[0], c.value(1), c.arg(2), c.arg(3)), kNoValue};
    },
    .ref = [](const RefArgs& x) { return x[1] > 0 ? x[0] : x[0] * x[2]; },
    .samples = {{-5, 5, false, "negative_slope=0.25, self_is_result=False"}},
};

// The gradients of self and, not yet summed to its sizes, of the weight.
KILN_OP(prelu_backward) = {
    .schema = "prelu_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)",
    .torch = {"aten._prelu_kernel_backward.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      absl::StatusOr<TypeList> types = ElementwiseShape(call);
      if (types.ok()) types->push_back((*types)[0]);
      return types;
    },
    .lower = [](Element& e) -> Results {
      const Expr g = Operand(e, 0), x = Operand(e, 1), weight = Operand(e, 2);
      const Expr positive = x > 0.0;
      return {positive.Select(g, weight * g).id(), positive.Select(x.Const(0), x * g).id()};
    },
    .ref = [](const RefArgs& x) { return x[1] > 0 ? x[0] : x[2] * x[0]; },
    .samples = {{-5, 5}},
};

KILN_OP(mish_backward) = {
    .schema = "mish_backward(Tensor grad_output, Tensor self) -> Tensor",
    .torch = {"aten.mish_backward.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr g = Operand(e, 0), x = Operand(e, 1);
      const Expr sigmoid = 1.0 / (1.0 + Exp(-x)), tanh = Tanh(Log1p(Exp(x)));
      return {(g * (tanh + x * sigmoid * (1.0 - tanh * tanh))).id()};
    },
    .ref =
        [](const RefArgs& x) {
          const double tanh = std::tanh(std::log1p(std::exp(x[1])));
          return x[0] * (tanh + x[1] * Sigmoid(x[1]) * (1 - tanh * tanh));
        },
    .samples = {{-10, 10}},
    .budget = {.ulp = 8, .floor = 10},
};

KILN_OP(elu_backward) = {
    .schema =
        "elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, "
        "Tensor self_or_result) -> Tensor",
    .torch = {"aten.elu_backward.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = LowerEluBackward,
    .ref =
        [](const RefArgs& x) {
          const double negative = x[1] * x[2];
          if (x[5] > 0) return x[0] * x[2];
          return x[4] != 0 ? x[0] * x[3] * (x[5] + negative) : x[0] * x[3] * negative * std::exp(x[5] * x[3]);
        },
    .samples = {{-5, 5, false, "alpha=1.5, scale=1, input_scale=0.5, is_result=False"},
                {-1, 1, false, "alpha=1.5, scale=1, input_scale=1, is_result=True"},
                {-1, 1, true, "alpha=1, scale=1, input_scale=1, is_result=False"}},
    .budget = {.ulp = 6},
};

KILN_OP(softplus_backward) = {
    .schema = "softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor",
    .torch = {"aten.softplus_backward.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr g = Operand(e, 0), scaled = Operand(e, 1) * NumberAs(e, 2, e.compute()), z = Exp(scaled);
      return {(scaled > NumberAs(e, 3, e.compute())).Select(g, g * z / (z + 1.0)).id()};
    },
    .ref = [](const RefArgs& x) { return x[1] * x[2] > x[3] ? x[0] : x[0] * Sigmoid(x[1] * x[2]); },
    .samples = {{-10, 10, false, "beta=1, threshold=20"}, {-10, 10, false, "beta=2, threshold=5"}},
    .budget = {.ulp = 6},
};

KILN_OP(hardswish_backward) = {
    .schema = "hardswish_backward(Tensor grad_output, Tensor self) -> Tensor",
    .torch = {"aten.hardswish_backward.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr g = Operand(e, 0), x = Operand(e, 1);
      const Expr inside = (x < 3.0).Select(g * (x / 3.0 + 0.5), g);
      return {(x <= -3.0).Select(g.Const(0), inside).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      const ValueId x = c.value(1), bent = b.logical_and(b.gt(x, -3.0), b.lt(x, 3.0));
      const ValueId slope = b.where(bent, b.div(b.mul(d[0], c.value(0)), 3.0), 0.0);
      return {b.hardswish_backward(d[0], x), slope};
    },
    .ref = [](const RefArgs& x) { return x[1] <= -3 ? 0
                                         : x[1] < 3 ? x[0] * (x[1] / 3 + 0.5)
                                                    : x[0]; },
    .samples = {{-5, 5}},
    .budget = {.ulp = 3, .floor = 5},
};

KILN_OP(hardsigmoid_backward) = {
    .schema = "hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor",
    .torch = {"aten.hardsigmoid_backward.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr g = Operand(e, 0), x = Operand(e, 1);
      return {((x > -3.0) & (x < 3.0)).Select(g * (1.0 / 6), g.Const(0)).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.hardsigmoid_backward(d[0], c.value(1)), kNoValue};
    },
    .ref = [](const RefArgs& x) { return x[1] > -3 && x[1] < 3 ? x[0] / 6 : 0; },
    .samples = {{-5, 5}},
    .budget = {.ulp = 1.5},
};

KILN_OP(hardtanh_backward) = {
    .schema = "hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor",
    .torch = {"aten.hardtanh_backward.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    // Of NaN no gradient passes, as in eager's vector kernel; its scalar one, for the last elements, lets it pass.
    .lower = [](Element& e) -> Results {
      const Expr g = Operand(e, 0), x = Operand(e, 1);
      const Expr inside = (x > NumberAs(e, 2, e.compute())) & (x < NumberAs(e, 3, e.compute()));
      return {inside.Select(g, g.Const(0)).id()};
    },
    .narrow = [](GraphBuilder& g, const Call& call) -> Values {
      if (!ReadsAlike(call) || !ComparesAlike(call, 2) || !ComparesAlike(call, 3)) return {};
      OpBuilder b(g);
      const ValueId inside = b.logical_and(b.gt(call.value(1), call.Number(2)), b.lt(call.value(1), call.Number(3)));
      return {b.where(inside, call.value(0), 0.0)};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.hardtanh_backward(d[0], c.value(1), c.arg(2), c.arg(3)), kNoValue};
    },
    .ref = [](const RefArgs& x) { return x[1] > x[2] && x[1] < x[3] ? x[0] : 0; },
    .samples = {{-5, 5, false, "min_val=-1, max_val=2"},
                {-1, 1, true, "min_val=-1, max_val=2"},
                {-1, 1, true, "min_val=-0.1, max_val=0.1"}},
};

// Eager's kernel rounds the number to the tensor's dtype, unlike the forward's.
KILN_OP(softshrink_backward) = {
    .schema = "softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor",
    .torch = {"aten.softshrink_backward.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .supports = [](const Call& call) { return Known<2>(call) && call.Number(2) >= 0 && call.Number(2) <= 65504; },
    .shape = ElementwiseShape,
    // Of NaN no gradient passes, as in eager's vector kernel; its scalar one, for the last elements, lets it pass.
    .lower = [](Element& e) -> Results {
      const Expr g = Operand(e, 0), x = Operand(e, 1), lambd = RoundedNumber(e, 2);
      return {((x > lambd) | (x < -lambd)).Select(g, g.Const(0)).id()};
    },
    .narrow = [](GraphBuilder& g, const Call& call) -> Values {
      if (!ReadsAlike(call)) return {};
      OpBuilder b(g);
      return {b.where(b.gt(b.abs(call.value(1)), call.Number(2)), call.value(0), 0.0)};
    },
    .ref = [](const RefArgs& x) { return std::fabs(x[1]) > x[2] ? x[0] : 0; },
    .samples = {{-2, 2, false, "lambd=0.5"}, {-1, 1, true, "lambd=0.5"}, {-1, 1, true, "lambd=0"}},
};

// grad * mask * scale: a dropped element of an infinite gradient is NaN, as in eager.
KILN_OP(native_dropout_backward) = {
    .schema = "native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
    .torch = {"aten.native_dropout_backward.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      absl::StatusOr<TypeList> types = ElementwiseShape(call);
      if (types.ok() && !IsFloat((*types)[0].dtype) && !IsComplex((*types)[0].dtype)) (*types)[0].dtype = kDefaultFloat;
      return types;
    },
    .lower = [](Element& e) -> Results { return {(Operand(e, 0) * Operand(e, 1) * NumberAs(e, 2, e.compute())).id()}; },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.native_dropout_backward(d[0], c.value(1), c.arg(2)), kNoValue};
    },
    .ref = [](const RefArgs& x) { return x[0] * x[1] * x[2]; },
    .samples = {{-5, 5, false, "scale=2"}},
    .budget = {.ulp = 2},
};

}  // namespace kiln
