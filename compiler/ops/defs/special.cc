// The error and gamma functions, and formulas of logarithms that need care.
#include "compiler/loop/special.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/ops/vjp_rules.h"

namespace kiln {

namespace {

// x * log, but 0 where x is, unless y is NaN.
Expr TimesLog(Expr x, Expr y, Expr log) { return (y != y).Select(y, (x == 0.0).Select(x.Const(0), x * log)); }

// log(b^x + b^y), given b's logarithm of 1 + b^-|x - y|. Equal infinities, whose difference is NaN, are the result.
Expr AddInLogarithms(Expr x, Expr y, Expr tail) {
  const Expr is_infinite = Abs(x) == x.Const(std::numeric_limits<double>::infinity());
  return (is_infinite & (x == y)).Select(x, Max(x, y) + tail);
}

}  // namespace

KILN_OP(erfc) = {
    .schema = "erfc(Tensor self) -> Tensor",
    .torch = {"aten.erfc.default", "aten.special_erfc.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kErfc>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.mul(d[0], b.mul(b.exp(b.neg(b.mul(c.value(0), c.value(0)))), -M_2_SQRTPI))};
    },
    .ref = [](const RefArgs& x) { return std::erfc(x[0]); },
    .samples = {{-5, 5}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

KILN_OP(erfinv) = {
    .schema = "erfinv(Tensor self) -> Tensor",
    .torch = {"aten.erfinv.default", "aten.special_erfinv.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kErfinv>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.mul(d[0], b.mul(b.exp(b.mul(ResultOf(c), ResultOf(c))), 1 / M_2_SQRTPI))};
    },
    .ref = [](const RefArgs& x) { return static_cast<double>(loop::ErfInv(x[0])); },
    .samples = {{-1, 1}, {-1, 1, true}},
    .budget = {.ulp = 3},
};

KILN_OP(lgamma) = {
    .schema = "lgamma(Tensor self) -> Tensor",
    .torch = {"aten.lgamma.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kLgamma>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.mul(d[0], b.digamma(c.value(0)))};
    },
    .ref = [](const RefArgs& x) { return static_cast<double>(std::lgamma(static_cast<long double>(x[0]))); },
    .samples = {{0, 3}, {0, 1000}, {-20, 20}, {-1, 1, true}},
    .budget = {.ulp = 3, .floor = 4},
};

KILN_OP(digamma) = {
    .schema = "digamma(Tensor self) -> Tensor",
    .torch = {"aten.digamma.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kDigamma>,
    .no_grad = "trigamma, its derivative, has no record",
    .ref = [](const RefArgs& x) { return static_cast<double>(loop::Digamma(x[0])); },
    .samples = {{0, 3}, {0, 1000}, {-20, 20}, {-1, 1, true}},
    .budget = {.ulp = 3, .floor = 32},
};

KILN_OP(xlogy) = {
    .schema = "xlogy(Tensor self, Tensor other) -> Tensor",
    .torch = {"aten.xlogy.Tensor"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0), y = Operand(e, 1);
      return {TimesLog(x, y, Log(y)).id()};
    },
    .ref = [](const RefArgs& x) { return std::isnan(x[1]) ? x[1]
                                         : x[0] == 0      ? 0
                                                          : x[0] * std::log(x[1]); },
    .samples = {{0, 5}, {-1, 1, true}},
    .budget = {.ulp = 3},
};

KILN_OP(special_xlog1py) = {
    .schema = "special_xlog1py(Tensor self, Tensor other) -> Tensor",
    .torch = {"aten.special_xlog1py.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0), y = Operand(e, 1);
      return {TimesLog(x, y, Log1p(y)).id()};
    },
    .ref = [](const RefArgs& x) { return std::isnan(x[1]) ? x[1]
                                         : x[0] == 0      ? 0
                                                          : x[0] * std::log1p(x[1]); },
    .samples = {{0, 5}, {-1, 1, true}},
    .budget = {.ulp = 3},
};

// -x log(x)
KILN_OP(special_entr) = {
    .schema = "special_entr(Tensor self) -> Tensor",
    .torch = {"aten.special_entr.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0), outside = x.Const(-std::numeric_limits<double>::infinity());
      const Expr inside = (x == 0.0).Select(x.Const(0), outside);
      return {(x != x).Select(x, (x > 0.0).Select(-x * Log(x), inside)).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.mul(d[0], b.sub(b.neg(b.log(c.value(0))), 1.0))};
    },
    .ref = [](const RefArgs& x) { return x[0] < 0    ? -INFINITY
                                         : x[0] == 0 ? 0
                                                     : -x[0] * std::log(x[0]); },
    .samples = {{0, 5}, {-1, 1, true}},
    .budget = {.ulp = 3},
};

KILN_OP(logaddexp) = {
    .schema = "logaddexp(Tensor self, Tensor other) -> Tensor",
    .torch = {"aten.logaddexp.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0), y = Operand(e, 1);
      return {AddInLogarithms(x, y, Log1p(Exp(-Abs(x - y)))).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {SumToOperand(b, b.mul(d[0], b.exp(b.sub(c.value(0), ResultOf(c)))), c.type(0)),
              SumToOperand(b, b.mul(d[0], b.exp(b.sub(c.value(1), ResultOf(c)))), c.type(1))};
    },
    .ref = [](const RefArgs& x) { return std::log(std::exp(x[0]) + std::exp(x[1])); },
    .samples = {{-10, 10}},
    .budget = {.ulp = 4, .floor = 1},
};

KILN_OP(logaddexp2) = {
    .schema = "logaddexp2(Tensor self, Tensor other) -> Tensor",
    .torch = {"aten.logaddexp2.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0), y = Operand(e, 1), power = (-Abs(x - y)).Apply(loop::Op::kExp2);
      return {AddInLogarithms(x, y, Log1p(power) * std::numbers::log2e).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {SumToOperand(b, b.mul(d[0], b.exp2(b.sub(c.value(0), ResultOf(c)))), c.type(0)),
              SumToOperand(b, b.mul(d[0], b.exp2(b.sub(c.value(1), ResultOf(c)))), c.type(1))};
    },
    .ref = [](const RefArgs& x) { return std::log2(std::exp2(x[0]) + std::exp2(x[1])); },
    .samples = {{-10, 10}},
    .budget = {.ulp = 4, .floor = 1},
};

// log(x / (1 - x)), x kept in [eps, 1 - eps] if eps is given.
KILN_OP(logit) = {
    .schema = "logit(Tensor self, float? eps=None) -> Tensor",
    .torch = {"aten.logit.default"},
    .promote = Promote::kIntToFloat,
    .supports = Known<1>,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      Expr x = Operand(e, 0);
      if (!e.call().is_none(1) && Parameter(e, 1) >= 0) {
        const Expr low = RoundedNumber(e, 1);
        x = ClampAbove(ClampBelow(x, low), 1.0 - low);
      }
      return {Log(x / (1.0 - x)).id()};
    },
    .ref =
        [](const RefArgs& x) {
          double p = x[0];
          if (!x.call.is_none(1)) p = std::fmin(std::fmax(p, x[1]), 1 - x[1]);
          return std::log(p / (1 - p));
        },
    .samples = {{0, 1}, {0, 1, false, "eps=0.125"}, {-1, 1, true}},
    .budget = {.ulp = 4, .floor = 1},
};

// sin(pi x) / (pi x)
KILN_OP(sinc) = {
    .schema = "sinc(Tensor self) -> Tensor",
    .torch = {"aten.sinc.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0), product = std::numbers::pi * x;
      return {(x == 0.0).Select(x.Const(1), product.Apply(loop::Op::kSin) / product).id()};
    },
    .ref =
        [](const RefArgs& x) { return x[0] == 0 ? 1 : std::sin(std::numbers::pi * x[0]) / (std::numbers::pi * x[0]); },
    .samples = {{-0.75, 0.75}, {-3, 3}},
    .budget = {.ulp = 8, .floor = 1},
};

// Sign of the dividend. Integers by a known divisor only: eager raises on zero.
KILN_OP(fmod) = {
    .schema = "fmod(Tensor self, Tensor|Scalar other) -> Tensor",
    .torch = {"aten.fmod.Tensor", "aten.fmod.Scalar"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .supports =
        [](const Call& call) {
          if (IsFloat(call.result().dtype)) return true;
          return !call.is_tensor(1) && Known<1>(call) && !call.IsFloatNumber(1) && call.ConstInt(1) != 0;
        },
    .shape = ElementwiseShape,
    .lower = Binary<loop::Op::kRem>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      Grads grads = {SumToOperand(b, d[0], c.type(0))};
      if (c.is_tensor(1))
        grads.push_back(SumToOperand(b, b.neg(b.mul(d[0], b.trunc(b.div(c.value(0), c.arg(1))))), c.type(1)));
      return grads;
    },
    .ref = [](const RefArgs& x) { return std::fmod(x[0], x[1]); },
    .samples = {{-10, 10}, {-100, 100, false, "other=7"}, {-100, 100, false, "other=-3"}, {-1, 1, true}},
};

}  // namespace kiln
