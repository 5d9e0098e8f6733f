// Tables of size expressions and types.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/builder.h"
#include "compiler/import/import.h"
#include "proto/graph.pb.h"

namespace kiln {

// One Sym an entry of `table`, whose symbols are declared as sizes of `builder`. `path` names the table in messages.
absl::StatusOr<std::vector<Sym>> ImportSyms(const v1::SymTable& table, const std::string& path,
                                            const ImportLimits& limits, GraphBuilder& builder);

// `exprs`: the entries of the table beside the type.
absl::StatusOr<TensorType> ImportType(const v1::TensorType& type, const std::string& path, const ImportLimits& limits,
                                      const std::vector<Sym>& exprs, const SymContext& syms);

}  // namespace kiln
