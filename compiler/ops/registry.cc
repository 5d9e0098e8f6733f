#include "compiler/ops/registry.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/ops/promote.h"

namespace kiln {
namespace {

// Built on first use and kept for the life of the process.
struct Index {
  absl::flat_hash_map<std::string, const OpDef*> by_torch;
  absl::flat_hash_map<const OpDef*, std::unique_ptr<const Schema>> schemas;  // looked up, never iterated

  Index() {
    for (const OpDef* def : AllOps()) {
      for (std::string_view overload : def->torch) by_torch.emplace(std::string(overload), def);
      absl::StatusOr<Schema> schema = ParseSchema(def->schema);
      schemas.emplace(def, std::make_unique<const Schema>(schema.ok() ? *std::move(schema) : Schema{}));
    }
  }
};

const Index& TheIndex() {
  static const Index* index = new Index;
  return *index;
}

// Loop IR has no complex numbers, and float8 arithmetic is left to the framework.
bool IsComputable(DType dtype) { return !IsComplex(dtype) && (!IsFloat(dtype) || ByteSize(dtype) > 1); }

DTypeSet SetOf(DType dtype) { return dtype == DType::kBool ? kBools : IsFloat(dtype) ? kFloats : kInts; }

// Symbolic sizes may be equal by a guard that no expression shows, so only provable differences count.
bool MayBeEqual(SymContext& syms, std::span<const Sym> a, std::span<const Sym> b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && (syms.ProvablyLess(a[i], b[i]) || syms.ProvablyLess(b[i], a[i]))) return false;
  }
  return true;
}

std::string SizesText(const Call& call, const TensorType& type) {
  std::string text(Name(type.dtype));
  absl::StrAppend(&text, "[");
  for (size_t i = 0; i < type.sizes.size(); ++i) {
    absl::StrAppend(&text, i ? ", " : "", call.syms().ToString(type.sizes[i]));
  }
  absl::StrAppend(&text, "]");
  return text;
}

}  // namespace

const OpDef* FindOp(std::string_view name) {
  const auto table = AllOps();
  const auto it = std::ranges::lower_bound(table, name, {}, [](const OpDef* def) { return def->name(); });
  return it != table.end() && (*it)->name() == name ? *it : nullptr;
}

const OpDef* FindTorchOp(std::string_view overload) {
  const auto& map = TheIndex().by_torch;
  const auto it = map.find(std::string(overload));
  return it == map.end() ? nullptr : it->second;
}

const OpDef* FindTorchOp(std::string_view overload, std::string_view schema) {
  const OpDef* def = FindTorchOp(overload);
  if (def == nullptr) return nullptr;
  const absl::StatusOr<Schema> theirs = ParseSchema(schema);
  return theirs.ok() && Accepts(SchemaOf(*def), *theirs) ? def : nullptr;
}

const OpDef* ResolveOp(OpName& op) {
  const OpDef* def = FindOp(op.name);
  if (def == nullptr) def = op.schema.empty() ? FindTorchOp(op.name) : FindTorchOp(op.name, op.schema);
  if (def != nullptr && op.schema.empty()) op.schema = std::string(def->schema);
  return def;
}

const Schema& SchemaOf(const OpDef& def) { return *TheIndex().schemas.at(&def); }

bool HasMeaning(const Call& call) {
  const OpDef* def = call.node().def;
  if (def == nullptr || !def->has_meaning()) return false;
  if (def->supports != nullptr && !def->supports(call)) return false;
  if (def->view != nullptr) return true;  // of elements of any type
  bool computable = true;
  const auto check = [&](const TensorType& type) {
    computable &= IsComputable(type.dtype) && type.device == call.graph().device();
  };
  for (size_t i = 0; i < call.node().num_results; ++i) {
    const TensorType* type = call.graph().type(call.node().first_result + i);
    // A result that is not wanted is none; only a decomposition can leave it out.
    if (type != nullptr) {
      check(*type);
    } else {
      computable &= def->decompose != nullptr;
    }
  }
  ForEachValue(call.node().args, [&](ValueId v) { check(*call.graph().type(v)); });
  return computable && (def->promote == Promote::kNone || (SetOf(PromotedDType(call)) & def->dtypes) != 0);
}

Traits TraitsOf(const Call& call) {
  if (call.node().def != nullptr) return call.node().def->traits;
  const OpName& op = call.graph().op_name(call.node());
  // A record of this overload knows, even if it does not take this version's arguments.
  const OpDef* def = FindTorchOp(op.name);
  Traits traits = def != nullptr ? def->traits : Traits{};
  const absl::StatusOr<Schema> schema = ParseSchema(op.schema);
  if (!schema.ok()) return traits;
  traits.random |= std::ranges::any_of(schema->args, [](const SchemaArg& a) { return a.kind == ArgKind::kGenerator; });
  traits.effect |=
      schema->results.empty() || std::ranges::any_of(schema->args, [](const SchemaArg& a) { return a.written; });
  return traits;
}

absl::StatusOr<TypeList> InferTypes(const Call& call) {
  if (call.node().def == nullptr) return absl::InvalidArgumentError("an operator without a record has no shape rule");
  return call.node().def->shape(call);
}

absl::Status VerifyCall(const Call& call) {
  const OpDef& def = *call.node().def;
  if (absl::Status s = CheckArgs(SchemaOf(def), call.node().args); !s.ok()) return s;
  const absl::StatusOr<TypeList> inferred = def.shape(call);
  if (!inferred.ok()) return inferred.status();
  const std::string name(def.name());
  if (inferred->size() != call.node().num_results) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has ", inferred->size(), " results, not ", call.node().num_results));
  }
  for (size_t i = 0; i < inferred->size(); ++i) {
    const TensorType* given = call.graph().type(call.node().first_result + i);
    if (given == nullptr) continue;
    const TensorType& rule = (*inferred)[i];
    if (given->dtype != rule.dtype || given->device != rule.device ||
        !MayBeEqual(call.syms(), given->sizes, rule.sizes)) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": result ", i, " is ", SizesText(call, rule), " on ",
                                                     std::string(Name(rule.device)), ", not ",
                                                     SizesText(call, *given)));
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln
