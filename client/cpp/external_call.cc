#include "client/cpp/external_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace kiln {
namespace {

using Kind = CallArg::Kind;
using Type = SchemaArg::Type;

class CallBuilder {
 public:
  CallBuilder(const v1::External& external, const std::function<absl::StatusOr<uint32_t>(uint32_t)>& slot)
      : external_(external), slot_(slot) {}

  absl::StatusOr<ExternalCall> Build() {
    absl::StatusOr<Schema> schema = Schema::Parse(external_.schema());
    if (!schema.ok()) return Named(schema.status());
    call_.op = external_.op();
    call_.schema_text = external_.schema();
    call_.schema = *std::move(schema);
    call_.origin = external_.origin();
    if (absl::Status s = CheckName(); !s.ok()) return Named(s);
    if (absl::Status s = AddArgs(); !s.ok()) return Named(s);
    if (absl::Status s = AddResults(); !s.ok()) return Named(s);
    return std::move(call_);
  }

 private:
  absl::Status Named(const absl::Status& s) const {
    return absl::Status(s.code(), absl::StrCat(external_.op(), ": ", s.message()));
  }
  static absl::Status Bad(const SchemaArg& arg, const char* what) {
    return absl::InvalidArgumentError(absl::StrCat("argument ", arg.name, ": ", what));
  }

  // "aten.mm.default" goes with "aten::mm", "aten.add.Tensor" with "aten::add.Tensor".
  absl::Status CheckName() const {
    const std::string overload = call_.schema.overload.empty() ? "default" : call_.schema.overload;
    const std::string want = absl::StrCat(absl::StrReplaceAll(call_.schema.name, {{"::", "."}}), ".", overload);
    if (want == external_.op()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the schema is that of ", want));
  }

  absl::Status AddArgs() {
    const std::vector<SchemaArg>& wanted = call_.schema.args;
    if (static_cast<size_t>(external_.args_size()) != wanted.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the schema has ", wanted.size(), " arguments, the call ", external_.args_size()));
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      absl::StatusOr<CallArg> arg = Argument(wanted[i], external_.args(static_cast<int>(i)));
      if (!arg.ok()) return arg.status();
      call_.args.push_back(*std::move(arg));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<CallArg> Argument(const SchemaArg& want, const v1::Arg& arg) {
    if (arg.kind_case() == v1::Arg::kNone) {
      // A generator of None is the default one; what the type is does not matter to a None.
      if (!want.optional && !want.list && want.type == Type::kTensor) return CallArg{.kind = Kind::kUndefined};
      if (!want.optional && want.type != Type::kGenerator && want.type != Type::kOther) return Bad(want, "is None");
      return CallArg{};
    }
    absl::StatusOr<CallArg> result = want.list ? List(want, arg) : Item(want, arg);
    if (result.ok()) result->boxed = want.optional;
    return result;
  }

  absl::StatusOr<CallArg> List(const SchemaArg& want, const v1::Arg& arg) {
    std::vector<CallArg> items;
    if (arg.kind_case() == v1::Arg::kList) {
      for (const v1::Arg& item : arg.list().items()) {
        if (item.kind_case() == v1::Arg::kNone && want.optional_item) {
          items.emplace_back();
          continue;
        }
        absl::StatusOr<CallArg> converted = Item(want, item);
        if (!converted.ok()) return converted;
        converted->boxed = want.optional_item;
        items.push_back(*std::move(converted));
      }
    } else {
      absl::StatusOr<CallArg> item = Item(want, arg);  // "int[2] stride=1"
      if (!item.ok()) return item;
      items.assign(static_cast<size_t>(std::max(want.list_size, 1)), *item);
    }
    CallArg list{.kind = Kind::kList};
    list.index = static_cast<uint32_t>(call_.items.size());
    list.i = static_cast<int64_t>(items.size());
    std::move(items.begin(), items.end(), std::back_inserter(call_.items));
    return list;
  }

  absl::StatusOr<CallArg> Item(const SchemaArg& want, const v1::Arg& arg) {
    const v1::Arg::KindCase kind = arg.kind_case();
    switch (want.type) {
      case Type::kTensor:
        if (kind == v1::Arg::kValue) return CallArg{.kind = Kind::kTensor, .index = arg.value()};
        // Python takes it for a tensor of no dimensions that does not promote.
        if (kind == v1::Arg::kSym || kind == v1::Arg::kI || kind == v1::Arg::kF || kind == v1::Arg::kB) {
          return Number(arg);
        }
        return Bad(want, "is not a tensor");
      case Type::kInt:
        if (kind == v1::Arg::kSym || kind == v1::Arg::kI) return Number(arg);
        if (kind == v1::Arg::kB) return CallArg{.kind = Kind::kInt, .i = arg.b()};
        return Bad(want, "is not an int");
      case Type::kFloat:
        if (kind == v1::Arg::kF) return Number(arg);
        if (kind == v1::Arg::kI) return CallArg{.kind = Kind::kFloat, .f = static_cast<double>(arg.i())};
        return Bad(want, "is not a float");
      case Type::kBool:
        if (kind == v1::Arg::kB) return Number(arg);
        if (kind == v1::Arg::kI) return CallArg{.kind = Kind::kBool, .i = arg.i() != 0};
        return Bad(want, "is not a bool");
      case Type::kScalar:
        if (kind == v1::Arg::kSym || kind == v1::Arg::kI || kind == v1::Arg::kF || kind == v1::Arg::kB) {
          return Number(arg);
        }
        return Bad(want, "is not a number");
      case Type::kString:
        if (kind != v1::Arg::kS) return Bad(want, "is not a string");
        return CallArg{.kind = Kind::kString, .s = arg.s()};
      default:
        return Enum(want, arg);
    }
  }

  absl::StatusOr<CallArg> Number(const v1::Arg& arg) {
    switch (arg.kind_case()) {
      case v1::Arg::kSym: {
        absl::StatusOr<uint32_t> slot = slot_(arg.sym());
        if (!slot.ok()) return slot.status();
        return CallArg{.kind = Kind::kSym, .index = *slot};
      }
      case v1::Arg::kF:
        return CallArg{.kind = Kind::kFloat, .f = arg.f()};
      case v1::Arg::kB:
        return CallArg{.kind = Kind::kBool, .i = arg.b()};
      default:
        return CallArg{.kind = Kind::kInt, .i = arg.i()};
    }
  }

  absl::StatusOr<CallArg> Enum(const SchemaArg& want, const v1::Arg& arg) {
    const v1::Arg::KindCase kind = arg.kind_case();
    if (want.type == Type::kDType && kind == v1::Arg::kDtype) {
      if (ByteSize(arg.dtype()) == 0) return Bad(want, "unknown dtype");
      return CallArg{.kind = Kind::kDType, .i = arg.dtype()};
    }
    if (want.type == Type::kDevice && kind == v1::Arg::kDevice) {
      if (arg.device() != v1::CPU && arg.device() != v1::CUDA) return Bad(want, "unknown device");
      return CallArg{.kind = Kind::kDevice, .i = arg.device()};
    }
    if (want.type == Type::kLayout && kind == v1::Arg::kLayout) {
      if (arg.layout() != 0) return Bad(want, "only strided tensors are supported");
      return CallArg{.kind = Kind::kLayout, .i = arg.layout()};
    }
    if (want.type == Type::kMemoryFormat && kind == v1::Arg::kMemoryFormat) {
      if (arg.memory_format() > 3) return Bad(want, "unknown memory format");
      return CallArg{.kind = Kind::kMemoryFormat, .i = arg.memory_format()};
    }
    return Bad(want, "has a value that its type does not take, or a type that is not supported");
  }

  absl::Status AddResults() {
    const std::vector<SchemaArg>& returns = call_.schema.returns;
    call_.results.assign(external_.results().begin(), external_.results().end());
    const size_t lists =
        static_cast<size_t>(std::count_if(returns.begin(), returns.end(), [](auto& r) { return r.list; }));
    if (lists > 1 || (lists == 1 && !returns.back().list)) {
      return absl::InvalidArgumentError("more than one list of results, or one before another result");
    }
    const size_t plain = returns.size() - lists;
    if (call_.results.size() < plain || (lists == 0 && call_.results.size() > plain)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the schema has ", returns.size(), " results, the call ", call_.results.size()));
    }
    for (size_t i = 0; i < plain; ++i) {
      if (returns[i].type != Type::kTensor && call_.results[i] != Program::kNoValue) {
        return absl::InvalidArgumentError(absl::StrCat("result ", i, " is not a tensor"));
      }
    }
    if (lists == 1 && returns.back().type != Type::kTensor) {
      return absl::InvalidArgumentError("a list of results that are not tensors");
    }
    return absl::OkStatus();
  }

  const v1::External& external_;
  const std::function<absl::StatusOr<uint32_t>(uint32_t)>& slot_;
  ExternalCall call_;
};

}  // namespace

absl::StatusOr<ExternalCall> BuildExternalCall(const v1::External& external,
                                               const std::function<absl::StatusOr<uint32_t>(uint32_t expr)>& slot) {
  return CallBuilder(external, slot).Build();
}

}  // namespace kiln
