// For tests of records: elements as doubles.
#pragma once

#include <string>
#include <string_view>

#include "compiler/graph/type.h"

namespace kiln {

// The bytes of one element: floats rounded once (low-precision ones through f32, as in torch), integers truncated and
// wrapped, bool x != 0.
std::string FromDouble(DType dtype, double value);
// The element at the start of `bytes`.
double ToDouble(DType dtype, std::string_view bytes);
double LargestFinite(DType dtype);

}  // namespace kiln
