// Operator schemas: "add(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor", in torch's syntax.
//
// A record's schema is parsed once; a client's ("aten::add.Tensor(Tensor self, …)", alias marks and all) is parsed to
// see whether the record may stand for it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"

namespace kiln {

enum class ArgKind : uint8_t {
  kTensor,
  kScalar,          // int, float or bool
  kTensorOrScalar,  // in records only
  kInt,             // int and SymInt alike
  kFloat,
  kBool,
  kString,
  kDType,
  kLayout,
  kDevice,
  kMemoryFormat,
  kGenerator,
};

struct SchemaArg {
  std::string name;
  ArgKind kind = ArgKind::kTensor;
  bool list = false;           // Tensor[], int[2]
  bool optional = false;       // may be None
  bool optional_item = false;  // Tensor?[]
  bool keyword_only = false;
  bool written = false;                                    // marked Tensor(a!)
  std::optional<std::string> default_text = std::nullopt;  // "1", "None", "'none'", "[0, 1]"
};

struct SchemaResult {
  ArgKind kind = ArgKind::kTensor;
  bool list = false;
};

struct Schema {
  std::string name;  // "add", "aten::add.Tensor"
  std::vector<SchemaArg> args;
  std::vector<SchemaResult> results;
};

// InvalidArgument with the offending text. Accepts alias marks, fixed list lengths and result names, and drops them.
absl::StatusOr<Schema> ParseSchema(std::string_view text);

// Whether a node with schema `theirs` may be read as one of the record with schema `ours`: as many arguments, and each
// of ours takes everything that theirs may be. Names and defaults do not count (arguments are positional and all
// there).
bool Accepts(const Schema& ours, const Schema& theirs);

// InvalidArgument that names the argument where `args` do not fit: too few or too many, or of the wrong kind. `undefined`:
// a None may stand for a Tensor that is not optional, as torch's operators take it for a tensor without a value.
absl::Status CheckArgs(const Schema& schema, const std::vector<Arg>& args, bool undefined = false);

// The argument that a default stands for; Internal if the text is not one of the argument's kind. Sizes are interned in
// `syms`.
absl::StatusOr<Arg> DefaultArg(const SchemaArg& arg, SymContext& syms);

}  // namespace kiln
