// Replaces functions of mathlib by their definitions.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "compiler/loop/ir.h"

namespace kiln::mathlib {

// Afterwards no function of mathlib (loop::IsFunction) is left but those that `keep`, if given, is true of: those that
// the target has itself.
// If there were any, the kernel is simplified too (loop/simplify.h), so that equal parts of several expansions are
// shared: sin and cos of one value reduce it once. Near-linear. The kernel must be verified and stays so; Internal if a
// definition is faulty. Test: expand_test.cc.
absl::Status Expand(loop::Kernel& kernel, const std::function<bool(loop::Op)>& keep = nullptr);

}  // namespace kiln::mathlib
