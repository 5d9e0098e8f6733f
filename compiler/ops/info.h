// The records as data, for listings (`kilnctl ops`).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ops/op_def.h"

namespace kiln {

struct OpInfo {
  std::string name;
  std::string schema;
  std::vector<std::string> torch;  // overloads
  std::string kind;      // "pointwise", "view", "reduction", "scan", "scatter", "creation", "composite", "external"
  std::string gradient;  // "rule", "decomposed", or the reason why none
  std::optional<Budget> budget;  // of a record that has a `ref` to be held to
};

// Every record, sorted by name.
std::vector<OpInfo> ListOps();

}  // namespace kiln
