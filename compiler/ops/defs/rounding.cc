// Rounding to whole numbers; integers are whole already.
#include <cmath>

#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"

namespace kiln {
namespace {

template <loop::Op op>
Results LowerRounding(Element& e) {
  const Expr x = Operand(e, 0);
  return {IsFloat(x.type()) ? x.Apply(op).id() : x.id()};
}

}  // namespace

KILN_OP(floor) = {
    .schema = "floor(Tensor self) -> Tensor",
    .torch = {"aten.floor.default"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .shape = ElementwiseShape,
    .lower = LowerRounding<loop::Op::kFloor>,
    .no_grad = "zero almost everywhere",
    .ref = [](const RefArgs& x) { return std::floor(x[0]); },
    .samples = {{-10, 10}, {-1, 1, true}},
};

KILN_OP(ceil) = {
    .schema = "ceil(Tensor self) -> Tensor",
    .torch = {"aten.ceil.default"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .shape = ElementwiseShape,
    .lower = LowerRounding<loop::Op::kCeil>,
    .no_grad = "zero almost everywhere",
    .ref = [](const RefArgs& x) { return std::ceil(x[0]); },
    .samples = {{-10, 10}, {-1, 1, true}},
};

KILN_OP(trunc) = {
    .schema = "trunc(Tensor self) -> Tensor",
    .torch = {"aten.trunc.default"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .shape = ElementwiseShape,
    .lower = LowerRounding<loop::Op::kTrunc>,
    .no_grad = "zero almost everywhere",
    .ref = [](const RefArgs& x) { return std::trunc(x[0]); },
    .samples = {{-10, 10}, {-1, 1, true}},
};

// Halves to even.
KILN_OP(round) = {
    .schema = "round(Tensor self) -> Tensor",
    .torch = {"aten.round.default"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .shape = ElementwiseShape,
    .lower = LowerRounding<loop::Op::kRound>,
    .no_grad = "zero almost everywhere",
    .ref = [](const RefArgs& x) { return std::nearbyint(x[0]); },
    .samples = {{-10, 10}, {-1, 1, true}},
};

}  // namespace kiln
