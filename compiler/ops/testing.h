// For tests of records: elements as doubles, arguments from text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/ops/schema.h"

namespace kiln {

// The bytes of one element: floats rounded once (low-precision ones through f32, as in torch), integers truncated and
// wrapped, bool x != 0.
std::string FromDouble(DType dtype, double value);
// The element at the start of `bytes`.
double ToDouble(DType dtype, std::string_view bytes);
double LargestFinite(DType dtype);

// "alpha=2, approximate='tanh'"
class NamedArgs {
 public:
  explicit NamedArgs(std::string_view text);
  const std::string* Find(std::string_view name) const;
  // The argument that the text names, else the schema's default, else None where that is allowed.
  absl::StatusOr<Arg> Make(SchemaArg arg, SymContext& syms) const;

 private:
  std::vector<std::pair<std::string, std::string>> items_;
};

}  // namespace kiln
