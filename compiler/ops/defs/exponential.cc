// Exponentials, logarithms, powers and roots.
#include <cmath>

#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_builder.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/promote.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/ops/vjp_rules.h"

namespace kiln {
namespace {

// x to a known power, as eager: small exponents are multiplied out, the rest goes to pow with the exponent rounded to
// x's dtype.
Expr PowFloat(Element& e, Expr x, double exponent) {
  // Eager's bf16 kernel multiplies bf16 vectors, so products round there; its f16 kernel works in f32.
  const DType dtype = e.call().result().dtype;
  const auto rounded = [&](Expr product) { return dtype == DType::kBFloat16 ? RoundTo(dtype, product) : product; };
  if (exponent == 0) return x.Const(1);
  if (exponent == 1) return x;
  if (exponent == 0.5) return Sqrt(x);
  if (exponent == -0.5) return x.Apply(loop::Op::kRsqrt);
  if (exponent == -1) return 1.0 / x;
  if (exponent == 2) return x * x;
  if (exponent == 3) return rounded(x * x) * x;
  if (exponent == -2) return 1.0 / rounded(x * x);
  return x.Apply(loop::Op::kPow, RoundTo(dtype, x.Const(exponent)));
}

// By squaring. Wrapping products may be taken in any order.
Expr PowInt(Expr x, uint64_t exponent) {
  std::optional<Expr> power;
  for (Expr square = x; exponent != 0; exponent >>= 1) {
    if (exponent & 1) power = power ? *power * square : square;
    if (exponent > 1) square = square * square;
  }
  return power ? *power : x.Const(1);
}

}  // namespace

KILN_OP(exp) = {
    .schema = "exp(Tensor self) -> Tensor",
    .torch = {"aten.exp.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kExp>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.mul(d[0], ResultOf(c))};
    },
    .ref = [](const RefArgs& x) { return std::exp(x[0]); },
    .samples = {{-20, 20}, {-120, 120}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

KILN_OP(log) = {
    .schema = "log(Tensor self) -> Tensor",
    .torch = {"aten.log.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kLog>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.div(d[0], c.value(0))};
    },
    .ref = [](const RefArgs& x) { return std::log(x[0]); },
    .samples = {{0, 2}, {0, 1e6}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

KILN_OP(log1p) = {
    .schema = "log1p(Tensor self) -> Tensor",
    .torch = {"aten.log1p.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {Log1p(Operand(e, 0)).id()}; },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.div(d[0], b.add(c.value(0), 1.0))};
    },
    .ref = [](const RefArgs& x) { return std::log1p(x[0]); },
    .samples = {{-1, 2}, {-1e-3, 1e-3}, {0, 1e6}, {-1, 1, true}},
    .budget = {.ulp = 4},
};

KILN_OP(expm1) = {
    .schema = "expm1(Tensor self) -> Tensor",
    .torch = {"aten.expm1.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {Expm1(Operand(e, 0)).id()}; },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.mul(d[0], b.add(ResultOf(c), 1.0))};
    },
    .ref = [](const RefArgs& x) { return std::expm1(x[0]); },
    .samples = {{-2, 2}, {-1e-3, 1e-3}, {-120, 80}, {-1, 1, true}},
    .budget = {.ulp = 6},
};

KILN_OP(sqrt) = {
    .schema = "sqrt(Tensor self) -> Tensor",
    .torch = {"aten.sqrt.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kSqrt>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.div(b.mul(d[0], 0.5), ResultOf(c))};
    },
    .ref = [](const RefArgs& x) { return std::sqrt(x[0]); },
    .samples = {{0, 100}, {-1, 1, true}},
};

KILN_OP(rsqrt) = {
    .schema = "rsqrt(Tensor self) -> Tensor",
    .torch = {"aten.rsqrt.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kRsqrt>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.mul(b.mul(d[0], -0.5), b.mul(ResultOf(c), b.mul(ResultOf(c), ResultOf(c))))};
    },
    .ref = [](const RefArgs& x) { return 1 / std::sqrt(x[0]); },
    .samples = {{0, 100}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

KILN_OP(pow_scalar) = {
    .schema = "pow_scalar(Tensor self, Tensor|Scalar exponent) -> Tensor",
    .torch = {"aten.pow.Tensor_Scalar"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .supports =
        [](const Call& call) {
          // Eager refuses negative powers of integers.
          return Known<1>(call) && (IsFloat(call.result().dtype) || call.Number(1) >= 0);
        },
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0);
      if (IsFloat(e.compute())) return {PowFloat(e, x, Parameter(e, 1)).id()};
      return {PowInt(x, static_cast<uint64_t>(e.call().ConstInt(1))).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.mul(d[0], b.mul(b.pow_scalar(c.value(0), c.Number(1) - 1), c.Number(1)))};
    },
    .ref = [](const RefArgs& x) { return std::pow(x[0], x[1]); },
    .samples = {{-4, 4, false, "exponent=2"},
                {-4, 4, false, "exponent=3"},
                {-4, 4, false, "exponent=5"},
                {-4, 4, false, "exponent=-2"},
                {1, 4, false, "exponent=-1"},
                {0, 4, false, "exponent=0.5"},
                {1, 4, false, "exponent=-0.5"},
                {0, 4, false, "exponent=1.75"},
                {-1, 1, true, "exponent=2"},
                {-1, 1, true, "exponent=0"}},
    .budget = {.ulp = 4, .result_ulp = 1.5},
};

KILN_OP(pow) = {
    .schema = "pow(Tensor|Scalar self, Tensor exponent) -> Tensor",
    .torch = {"aten.pow.Tensor_Tensor", "aten.pow.Scalar"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = Binary<loop::Op::kPow>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      const ValueId grown = b.mul(d[0], ResultOf(c));
      if (!c.is_tensor(0)) return {b.mul(grown, std::log(c.Number(0)))};
      const ValueId slope = b.mul(c.value(1), b.pow(c.value(0), b.sub(c.value(1), 1.0)));
      return {SumToOperand(b, b.mul(d[0], slope), c.type(0)),
              SumToOperand(b, b.mul(grown, b.log(c.value(0))), c.type(1))};
    },
    .ref = [](const RefArgs& x) { return std::pow(x[0], x[1]); },
    .samples = {{0, 8}, {-1, 1, true}},
    .budget = {.ulp = 4},
};

KILN_OP(sin) = {
    .schema = "sin(Tensor self) -> Tensor",
    .torch = {"aten.sin.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kSin>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.mul(d[0], b.cos(c.value(0)))};
    },
    .ref = [](const RefArgs& x) { return std::sin(x[0]); },
    .samples = {{-10, 10}, {-1000, 1000}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

KILN_OP(cos) = {
    .schema = "cos(Tensor self) -> Tensor",
    .torch = {"aten.cos.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kCos>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.neg(b.mul(d[0], b.sin(c.value(0))))};
    },
    .ref = [](const RefArgs& x) { return std::cos(x[0]); },
    .samples = {{-10, 10}, {-1000, 1000}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

KILN_OP(erf) = {
    .schema = "erf(Tensor self) -> Tensor",
    .torch = {"aten.erf.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kErf>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.mul(d[0], b.mul(b.exp(b.neg(b.mul(c.value(0), c.value(0)))), M_2_SQRTPI))};
    },
    .ref = [](const RefArgs& x) { return std::erf(x[0]); },
    .samples = {{-5, 5}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

KILN_OP(exp2) = {
    .schema = "exp2(Tensor self) -> Tensor",
    .torch = {"aten.exp2.default", "aten.special_exp2.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kExp2>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.mul(d[0], b.mul(ResultOf(c), M_LN2))};
    },
    .ref = [](const RefArgs& x) { return std::exp2(x[0]); },
    .samples = {{-20, 20}, {-160, 160}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

KILN_OP(log2) = {
    .schema = "log2(Tensor self) -> Tensor",
    .torch = {"aten.log2.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kLog2>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.div(d[0], b.mul(c.value(0), M_LN2))};
    },
    .ref = [](const RefArgs& x) { return std::log2(x[0]); },
    .samples = {{0, 2}, {0, 1e6}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

KILN_OP(log10) = {
    .schema = "log10(Tensor self) -> Tensor",
    .torch = {"aten.log10.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kLog10>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.div(d[0], b.mul(c.value(0), M_LN10))};
    },
    .ref = [](const RefArgs& x) { return std::log10(x[0]); },
    .samples = {{0, 2}, {0, 1e6}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

}  // namespace kiln
