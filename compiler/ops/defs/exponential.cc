// Exponentials, logarithms, powers and roots.
#include <cmath>

#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"

namespace kiln {

KILN_OP(exp) = {
    .schema = "exp(Tensor self) -> Tensor",
    .torch = {"aten.exp.default"},
    .promote = Promote::kIntToFloat,
    .shape = ElementwiseShape,
    .lower = Unary<loop::Op::kExp>,
    .ref = [](const RefArgs& x) { return std::exp(x[0]); },
    .samples = {{-20, 20}, {-120, 120}, {-1, 1, true}},
    .budget = {.ulp = 2},
};

}  // namespace kiln
