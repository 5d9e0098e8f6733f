// Arguments from text, as Sample::args gives them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/ops/schema.h"

namespace kiln {

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
