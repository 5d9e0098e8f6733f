#include "compiler/import/args.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "compiler/import/errors.h"

namespace kiln {
namespace {

bool IsNameChar(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '.'; }

// "aten::add.Tensor" as torch prints the overload itself: "aten.add.Tensor", and "aten.relu.default" for "aten::relu".
std::string OverloadName(const std::string& schema_name) {
  const size_t colons = schema_name.find("::");
  if (colons == std::string::npos) return schema_name;
  const std::string rest = schema_name.substr(colons + 2);
  return schema_name.substr(0, colons) + "." + rest + (rest.find('.') == std::string::npos ? ".default" : "");
}

class ArgImporter {
 public:
  ArgImporter(const ImportLimits& limits, const std::vector<Sym>& exprs, const CurrentValues& current,
              const Graph& graph)
      : limits_(limits), exprs_(exprs), current_(current), graph_(graph) {}

  absl::StatusOr<Arg> Import(const v1::Arg& arg, const std::string& path, bool in_list) {
    switch (arg.kind_case()) {
      case v1::Arg::kNone:
        return Arg{};
      case v1::Arg::kValue:
        return Value(arg.value(), path);
      case v1::Arg::kSym:
        if (arg.sym() >= exprs_.size()) return Invalid(path, absl::StrCat("there is no expression ", arg.sym()));
        return Arg{exprs_[arg.sym()]};
      case v1::Arg::kI:
        return Arg{graph_.syms().Const(arg.i())};
      case v1::Arg::kF:
        return Arg{arg.f()};
      case v1::Arg::kB:
        return Arg{arg.b()};
      case v1::Arg::kS: {
        absl::Status status = CheckLimit(path + ".s", static_cast<int64_t>(arg.s().size()), limits_.max_string_bytes);
        if (!status.ok()) return status;
        return Arg{arg.s()};
      }
      case v1::Arg::kDtype:
        if (arg.dtype() < 1 || arg.dtype() > kMaxDType) {
          return Invalid(path, absl::StrCat("unknown dtype ", static_cast<int>(arg.dtype())));
        }
        return Arg{static_cast<DType>(arg.dtype())};
      case v1::Arg::kDevice:
        if (arg.device() != v1::CPU && arg.device() != v1::CUDA) {
          return Invalid(path, absl::StrCat("unknown device type ", static_cast<int>(arg.device())));
        }
        return Arg{static_cast<DeviceType>(arg.device())};
      case v1::Arg::kLayout:
        if (arg.layout() > 255) return Invalid(path, absl::StrCat("unknown layout ", arg.layout()));
        return Arg{static_cast<Layout>(arg.layout())};
      case v1::Arg::kMemoryFormat:
        if (arg.memory_format() > 3) return Invalid(path, absl::StrCat("unknown memory format ", arg.memory_format()));
        return Arg{static_cast<MemoryFormat>(arg.memory_format())};
      case v1::Arg::kList:
        if (in_list) return Invalid(path, "a list inside a list");
        return List(arg.list(), path);
      case v1::Arg::kTuple:
      case v1::Arg::kDict:
      case v1::Arg::kSlice:
      case v1::Arg::kComplex:
      case v1::Arg::kEllipsis:
      case v1::Arg::kFunction:
      case v1::Arg::kSubgraph:
      case v1::Arg::KIND_NOT_SET:
        break;
    }
    return Invalid(path, "an argument of unknown kind");
  }

 private:
  absl::StatusOr<Arg> Value(ValueId id, const std::string& path) {
    auto it = current_.find(id);
    const ValueId v = it == current_.end() ? id : it->second;
    if (v >= graph_.num_values() || !graph_.type(v)) {
      return Invalid(path, absl::StrCat("value ", id, " is not defined before the node"));
    }
    return Arg{ValueRef{v}};
  }

  absl::StatusOr<Arg> List(const v1::Arg::List& list, const std::string& path) {
    ArgList items;
    for (int i = 0; i < list.items_size(); ++i) {
      absl::StatusOr<Arg> item = Import(list.items(i), At(path + ".list.items", i), true);
      if (!item.ok()) return item.status();
      items.push_back(*std::move(item));
    }
    return Arg{std::move(items)};
  }

  const ImportLimits& limits_;
  const std::vector<Sym>& exprs_;
  const CurrentValues& current_;
  const Graph& graph_;
};

}  // namespace

absl::StatusOr<ImportedOp> ImportOp(const v1::OpRef& op, const std::string& path, const ImportLimits& limits) {
  absl::Status status = CheckLimit(path + ".name", static_cast<int64_t>(op.name().size()), limits.max_string_bytes);
  if (status.ok()) {
    status = CheckLimit(path + ".schema", static_cast<int64_t>(op.schema().size()), limits.max_string_bytes);
  }
  if (!status.ok()) return status;
  if (op.name().empty() || !std::all_of(op.name().begin(), op.name().end(), IsNameChar)) {
    return Invalid(path + ".name", "not the name of an overload, like aten.add.Tensor");
  }
  absl::StatusOr<Schema> schema = ParseSchema(op.schema());
  if (!schema.ok()) return Invalid(path + ".schema", std::string(schema.status().message()));
  if (OverloadName(schema->name) != op.name()) {
    return Invalid(path + ".schema", absl::StrCat("is of ", OverloadName(schema->name), ", not of ", op.name()));
  }
  ImportedOp out;
  out.name = {op.name(), op.schema()};
  out.schema = *std::move(schema);
  out.is_copy = op.name() == "aten.copy_.default";
  if (!out.is_copy && op.schema().find('!') != std::string::npos) {
    return Unsupported(path, op.name() + " writes to its arguments");
  }
  out.def = FindTorchOp(out.name.name, out.name.schema);
  return out;
}

absl::StatusOr<std::vector<Arg>> ImportArgs(const v1::Node& node, const std::string& path, const ImportLimits& limits,
                                            const ImportedOp& op, const std::vector<Sym>& exprs,
                                            const CurrentValues& current, const Graph& graph) {
  int64_t count = node.args_size();
  for (const v1::Arg& arg : node.args()) count += arg.kind_case() == v1::Arg::kList ? arg.list().items_size() : 0;
  absl::Status status = CheckLimit(path + ".args", count, limits.max_args);
  if (!status.ok()) return status;
  ArgImporter importer(limits, exprs, current, graph);
  std::vector<Arg> args;
  for (int i = 0; i < node.args_size(); ++i) {
    absl::StatusOr<Arg> arg = importer.Import(node.args(i), At(path + ".args", i), false);
    if (!arg.ok()) return arg.status();
    args.push_back(*std::move(arg));
  }
  // A record's meaning is for tensors that are there.
  status = CheckArgs(op.schema, args, /*undefined=*/op.def == nullptr);
  if (!status.ok()) return Invalid(path + ".args", std::string(status.message()));
  return args;
}

}  // namespace kiln
