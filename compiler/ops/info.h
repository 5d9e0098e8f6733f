// The records as data, for listings (`kilnctl ops`).
#pragma once

#include <string>
#include <vector>

namespace kiln {

struct OpInfo {
  std::string name;
  std::string schema;
  std::vector<std::string> torch;  // overloads
  std::string kind;      // "pointwise", "view", "reduction", "scan", "scatter", "creation", "composite", "external"
  std::string gradient;  // "rule", "decomposed", or the reason why none
};

// Every record, sorted by name.
std::vector<OpInfo> ListOps();

}  // namespace kiln
