#include "compiler/ops/op_builder.h"

#include "absl/strings/str_cat.h"
#include "compiler/ops/registry.h"

namespace kiln {
namespace {

// A node that will run as an external call goes by the overload that hosts know.
OpName NameFor(const OpDef& def) {
  if (def.has_meaning() || def.torch.empty()) return {std::string(def.name()), std::string(def.schema)};
  const std::string_view overload = def.torch[0];  // "aten.mm.default"
  const size_t dot = overload.find('.'), last = overload.rfind('.');
  std::string schema =
      absl::StrCat(std::string(overload.substr(0, dot)), "::", std::string(overload.substr(dot + 1, last - dot - 1)));
  if (overload.substr(last) != ".default") schema += overload.substr(last);
  schema += def.schema.substr(def.schema.find('('));
  return {std::string(overload), std::move(schema)};
}

}  // namespace

std::vector<ValueId> OpBuilder::Add(const OpDef& def, std::vector<Arg> args) {
  const Schema& schema = SchemaOf(def);
  while (args.size() < schema.args.size()) {
    absl::StatusOr<Arg> value = DefaultArg(schema.args[args.size()], syms());
    if (!value.ok()) return Fail(def, value.status());
    args.push_back(*std::move(value));
  }
  if (absl::Status s = CheckArgs(schema, args); !s.ok()) return Fail(def, s);
  bool defined = true;
  ForEachValue(args,
               [&](ValueId v) { defined &= v < graph_.graph().num_values() && graph_.graph().type(v) != nullptr; });
  if (!defined) return Fail(def, absl::InternalError("an operand is not defined"));
  Node node;
  node.def = &def;
  node.args = args;
  absl::StatusOr<TypeList> types = InferTypes(Call(graph_.graph(), node));
  if (!types.ok()) return Fail(def, types.status());
  if (types->empty()) return Fail(def, absl::InternalError("only a client knows the shape of its result"));
  const ValueId first =
      graph_.AddNode(NameFor(def), &def, std::move(args), GraphBuilder::ResultTypes(types->begin(), types->end()));
  std::vector<ValueId> results;
  for (size_t i = 0; i < types->size(); ++i) results.push_back(first + static_cast<ValueId>(i));
  return results;
}

ValueId OpBuilder::One(const OpDef& def, std::vector<Arg> args) {
  const std::vector<ValueId> results = Add(def, std::move(args));
  return results.empty() ? kNoValue : results[0];
}

std::vector<ValueId> OpBuilder::Fail(const OpDef& def, const absl::Status& status) {
  graph_.Fail(absl::StrCat(std::string(def.name()), ": ", std::string(status.message())));
  return {};
}

}  // namespace kiln
