// Sums, differences, products, quotients and their kin.
#include <cmath>

#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/promote.h"
#include "compiler/ops/shape_rules.h"

namespace kiln {
namespace {

// x + alpha * y as eager does it: a fused multiply-add for floats, wrapping products for integers; for bool + is or and
// * is and.
Expr AddScaled(Element& e, Expr x, Expr y, size_t alpha_arg, bool negate) {
  const DType dtype = e.compute();
  if (dtype == DType::kBool) return e.call().Number(alpha_arg, 1) != 0 ? (x | y) : x;
  Expr alpha = NumberAs(e, alpha_arg, dtype);
  const bool one = e.call().Number(alpha_arg, 1) == 1;
  if (one) return negate ? x - y : x + y;
  if (negate) alpha = -alpha;
  return IsFloat(dtype) ? Fma(y, alpha, x) : x + alpha * y;
}

}  // namespace

KILN_OP(add) = {
    .schema = "add(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
    .torch = {"aten.add.Tensor", "aten.add.Scalar"},
    .promote = Promote::kDefault,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {AddScaled(e, Operand(e, 0), OpmathOperand(e, 1), 2, false).id()}; },
    .ref = [](const RefArgs& x) { return x[0] + x[2] * x[1]; },
    .samples = {{-10, 10}, {-10, 10, false, "alpha=3"}, {-1, 1, true}},
};

KILN_OP(sub) = {
    .schema = "sub(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
    .torch = {"aten.sub.Tensor", "aten.sub.Scalar"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .shape = ElementwiseShape,
    .lower = [](Element& e) -> Results { return {AddScaled(e, Operand(e, 0), OpmathOperand(e, 1), 2, true).id()}; },
    .ref = [](const RefArgs& x) { return x[0] - x[2] * x[1]; },
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
    .ref = [](const RefArgs& x) { return x[0] * x[1]; },
    .samples = {{-10, 10}, {-1, 1, true}},
};

KILN_OP(neg) = {
    .schema = "neg(Tensor self) -> Tensor",
    .torch = {"aten.neg.default"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kNeg>,
    .ref = [](const RefArgs& x) { return -x[0]; },
    .samples = {{-10, 10}, {-1, 1, true}},
};

}  // namespace kiln
