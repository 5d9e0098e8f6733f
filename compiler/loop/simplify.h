// Smaller kernels with the same answers.
#pragma once

#include "compiler/loop/ir.h"

namespace kiln::loop {

// Folds constants, applies identities that are exact for every input (x*1, x - 0, select of a constant, a cast of a
// widening cast …), shares equal Lets, drops dead ones and empty loops. Results and their
// order are bit-equal but for which NaN; kCheckIndex is never dropped. Functions of mathlib are not folded: their value
// must not come from the compiling host's libm. Near-linear. The kernel must be verified; it stays so. Test:
// simplify_test.cc.
void Simplify(Kernel& kernel);

}  // namespace kiln::loop
