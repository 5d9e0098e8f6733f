// Operators and arguments of a request.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "compiler/graph/builder.h"
#include "compiler/import/import.h"
#include "compiler/ops/registry.h"
#include "proto/graph.pb.h"

namespace kiln {

struct ImportedOp {
  OpName name;
  const OpDef* def = nullptr;
  Schema schema;
  bool is_copy = false;  // aten.copy_.default
};

// Unimplemented for an operator that writes to its arguments, copy_ excepted.
absl::StatusOr<ImportedOp> ImportOp(const v1::OpRef& op, const std::string& path, const ImportLimits& limits);

// What a value id of the request stands for: itself, but for inputs that were written and for results of copy_.
using CurrentValues = absl::flat_hash_map<ValueId, ValueId>;

// The arguments of `node`, checked against the operator's schema. Values are ids of `graph`, as built so far.
absl::StatusOr<std::vector<Arg>> ImportArgs(const v1::Node& node, const std::string& path, const ImportLimits& limits,
                                            const ImportedOp& op, const std::vector<Sym>& exprs,
                                            const CurrentValues& current, const Graph& graph);

}  // namespace kiln
