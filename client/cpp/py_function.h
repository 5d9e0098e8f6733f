// kiln._kiln.Function: a function of an artifact as Python calls it.
#pragma once

#include "client/cpp/py_common.h"
#include "client/cpp/py_torch.h"
#include "client/cpp/runtime.h"

namespace kiln {

// A new reference; nullptr with an exception set. `function` is owned by `artifact`, which the object keeps alive.
PyObject* NewFunction(Function* function, PyObject* artifact);

}  // namespace kiln
