// Activations and their backwards.
#include <cmath>

#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"

namespace kiln {

KILN_OP(relu) = {
    .schema = "relu(Tensor self) -> Tensor",
    .torch = {"aten.relu.default"},
    .promote = Promote::kDefault,
    .dtypes = kNumbers,
    .shape = ElementwiseShape,
    // The maximum keeps NaN, and gives +0 for -0 as clamp_min(0) does.
    .lower = [](Element& e) -> Results {
      const Expr x = Operand(e, 0);
      return {Max(x, x.Const(0)).id()};
    },
    .ref = [](const RefArgs& x) { return std::isnan(x[0]) ? x[0]
                                         : x[0] > 0       ? x[0]
                                                          : 0; },
    .samples = {{-1, 1}, {-1, 1, true}},
};

}  // namespace kiln
