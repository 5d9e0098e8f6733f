// A torch operator schema, as far as a call needs it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kiln {

struct SchemaArg {
  enum class Type {
    kTensor,
    kInt,  // int and SymInt
    kFloat,
    kBool,
    kScalar,  // also complex
    kString,
    kDType,
    kLayout,
    kDevice,
    kMemoryFormat,
    kGenerator,
    kOther,  // anything else: streams, type variables, nested lists
  };
  Type type = Type::kOther;
  std::string name;            // of a return: may be empty
  bool optional = false;       // T? of a scalar type, T[]? of a list
  bool list = false;           // T[] or T[n]
  bool optional_item = false;  // T?[]
  int list_size = 0;           // n of T[n]; 0: any
  bool keyword_only = false;
  bool alias = false;    // annotated as sharing memory with another argument or a return
  bool mutated = false;  // written to
};

struct Schema {
  std::string name;      // "aten::add"
  std::string overload;  // "Tensor"; empty for the default one
  std::vector<SchemaArg> args;
  std::vector<SchemaArg> returns;

  // Reads what torch prints for a schema. InvalidArgument says where it stops making sense. An unknown type is kOther.
  static absl::StatusOr<Schema> Parse(std::string_view text);
};

}  // namespace kiln
