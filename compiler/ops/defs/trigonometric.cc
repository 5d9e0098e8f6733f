// Trigonometric and hyperbolic functions and their inverses.
#include <cmath>

#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/ops/vjp_rules.h"

namespace kiln {

KILN_OP(tan) = {
    .schema = "tan(Tensor self) -> Tensor",
    .torch = {"aten.tan.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kTan>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.mul(d[0], b.add(b.mul(ResultOf(c), ResultOf(c)), 1.0))};
    },
    .ref = [](const RefArgs& x) { return std::tan(x[0]); },
    .samples = {{-10, 10}, {-1000, 1000}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

KILN_OP(asin) = {
    .schema = "asin(Tensor self) -> Tensor",
    .torch = {"aten.asin.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kAsin>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.mul(d[0], b.rsqrt(b.rsub(b.mul(c.value(0), c.value(0)), 1.0)))};
    },
    .ref = [](const RefArgs& x) { return std::asin(x[0]); },
    .samples = {{-1, 1}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

KILN_OP(acos) = {
    .schema = "acos(Tensor self) -> Tensor",
    .torch = {"aten.acos.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kAcos>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.neg(b.mul(d[0], b.rsqrt(b.rsub(b.mul(c.value(0), c.value(0)), 1.0))))};
    },
    .ref = [](const RefArgs& x) { return std::acos(x[0]); },
    .samples = {{-1, 1}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

KILN_OP(atan) = {
    .schema = "atan(Tensor self) -> Tensor",
    .torch = {"aten.atan.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kAtan>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.div(d[0], b.add(b.mul(c.value(0), c.value(0)), 1.0))};
    },
    .ref = [](const RefArgs& x) { return std::atan(x[0]); },
    .samples = {{-3, 3}, {-1000, 1000}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

KILN_OP(atan2) = {
    .schema = "atan2(Tensor self, Tensor other) -> Tensor",
    .torch = {"aten.atan2.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Binary<loop::Op::kAtan2>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {
          SumToOperand(
              b, b.div(b.mul(d[0], c.value(1)), b.add(b.mul(c.value(0), c.value(0)), b.mul(c.value(1), c.value(1)))),
              c.type(0)),
          SumToOperand(b,
                       b.neg(b.div(b.mul(d[0], c.value(0)),
                                   b.add(b.mul(c.value(0), c.value(0)), b.mul(c.value(1), c.value(1))))),
                       c.type(1))};
    },
    .ref = [](const RefArgs& x) { return std::atan2(x[0], x[1]); },
    .samples = {{-10, 10}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

KILN_OP(sinh) = {
    .schema = "sinh(Tensor self) -> Tensor",
    .torch = {"aten.sinh.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kSinh>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.mul(d[0], b.cosh(c.value(0)))};
    },
    .ref = [](const RefArgs& x) { return std::sinh(x[0]); },
    .samples = {{-10, 10}, {-0.5, 0.5}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

KILN_OP(cosh) = {
    .schema = "cosh(Tensor self) -> Tensor",
    .torch = {"aten.cosh.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kCosh>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.mul(d[0], b.sinh(c.value(0)))};
    },
    .ref = [](const RefArgs& x) { return std::cosh(x[0]); },
    .samples = {{-10, 10}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

KILN_OP(asinh) = {
    .schema = "asinh(Tensor self) -> Tensor",
    .torch = {"aten.asinh.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kAsinh>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.mul(d[0], b.rsqrt(b.add(b.mul(c.value(0), c.value(0)), 1.0)))};
    },
    .ref = [](const RefArgs& x) { return std::asinh(x[0]); },
    .samples = {{-10, 10}, {0, 1e6}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

KILN_OP(acosh) = {
    .schema = "acosh(Tensor self) -> Tensor",
    .torch = {"aten.acosh.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kAcosh>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.mul(d[0], b.rsqrt(b.sub(b.mul(c.value(0), c.value(0)), 1.0)))};
    },
    .ref = [](const RefArgs& x) { return std::acosh(x[0]); },
    .samples = {{1, 10}, {1, 1e6}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

KILN_OP(atanh) = {
    .schema = "atanh(Tensor self) -> Tensor",
    .torch = {"aten.atanh.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kAtanh>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.div(d[0], b.rsub(b.mul(c.value(0), c.value(0)), 1.0))};
    },
    .ref = [](const RefArgs& x) { return std::atanh(x[0]); },
    .samples = {{-1, 1}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

KILN_OP(hypot) = {
    .schema = "hypot(Tensor self, Tensor other) -> Tensor",
    .torch = {"aten.hypot.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .shape = ElementwiseShape,
    .lower = Binary<loop::Op::kHypot>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {SumToOperand(b, b.div(b.mul(d[0], c.value(0)), ResultOf(c)), c.type(0)),
              SumToOperand(b, b.div(b.mul(d[0], c.value(1)), ResultOf(c)), c.type(1))};
    },
    .ref = [](const RefArgs& x) { return std::hypot(x[0], x[1]); },
    .samples = {{-10, 10}, {-1, 1, true}},
    .budget = {.ulp = 1},
};

}  // namespace kiln
