#include "compiler/loop/typing.h"

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/loop/scalar.h"

namespace kiln::loop {
namespace {

enum class Rule { kSame, kCompare, kLogic, kFloat, kInt, kSpecial };

constexpr Rule RuleFromName(std::string_view name) {
  if (name == "same") return Rule::kSame;
  if (name == "compare") return Rule::kCompare;
  if (name == "logic") return Rule::kLogic;
  if (name == "float") return Rule::kFloat;
  if (name == "int") return Rule::kInt;
  return Rule::kSpecial;
}

constexpr Rule kRules[] = {
#define KILN_LOOP_OP(id, name, arity, rule) RuleFromName(rule),
#include "compiler/loop/nodes.def"
#undef KILN_LOOP_OP
};

Rule RuleOf(Op op) { return kRules[static_cast<size_t>(op)]; }

std::string Str(std::string_view text) { return std::string(text); }

std::string TypeNames(std::span<const DType> types) {
  std::string out;
  for (DType type : types) absl::StrAppend(&out, out.empty() ? "" : ", ", Str(Name(type)));
  return out;
}

bool IsArithmeticFloat(DType type) { return type == DType::kFloat32 || type == DType::kFloat64; }

// Whether operands of `type` may be given to an operation of this rule.
bool Admits(Rule rule, DType type) {
  switch (rule) {
    case Rule::kSame:
      return IsInt(type) || IsArithmeticFloat(type);
    case Rule::kCompare:
      return type == DType::kBool || IsInt(type) || IsArithmeticFloat(type);
    case Rule::kLogic:
      return type == DType::kBool || IsInt(type);
    case Rule::kFloat:
      return IsArithmeticFloat(type);
    case Rule::kInt:
      return IsInt(type);
    case Rule::kSpecial:
      return IsLoopType(type);
  }
  return false;
}

absl::Status BadOperands(Op op, std::span<const DType> args) {
  return absl::InvalidArgumentError(
      absl::StrCat("operation ", Str(Name(op)), " does not take (", TypeNames(args), ")"));
}

absl::Status Expect(bool condition, Op op, std::string_view what) {
  if (condition) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("operation ", Str(Name(op)), ": ", Str(what)));
}

absl::Status CheckMask(ValueId mask, TypeOfFn type_of) {
  if (mask == kNone) return absl::OkStatus();
  const std::optional<DType> type = type_of(mask);
  if (!type) return absl::InvalidArgumentError(absl::StrCat("mask v", mask, " is not defined"));
  if (*type != DType::kBool) return absl::InvalidArgumentError(absl::StrCat("mask v", mask, " is not a bool"));
  return absl::OkStatus();
}

absl::Status CheckAccess(BufferId buffer, std::span<const Buffer> buffers, Access forbidden, std::string_view verb) {
  if (buffer >= buffers.size()) {
    return absl::InvalidArgumentError(absl::StrCat("buffer b", buffer, " is not declared"));
  }
  if (buffers[buffer].access == forbidden) {
    return absl::InvalidArgumentError(absl::StrCat("buffer b", buffer, " may not be ", Str(verb)));
  }
  return absl::OkStatus();
}

absl::Status CheckLoad(const Let& let, std::span<const Buffer> buffers, TypeOfFn type_of) {
  if (absl::Status s = CheckAccess(let.buffer, buffers, Access::kWrite, "read"); !s.ok()) return s;
  if (let.type != buffers[let.buffer].dtype) return Expect(false, let.op, "the result has the buffer's type");
  if (absl::Status s = CheckMask(let.mask, type_of); !s.ok()) return s;
  if ((let.mask == kNone) != (let.other == kNone)) return Expect(false, let.op, "mask and other come together");
  if (let.other != kNone && type_of(let.other) != let.type) {
    return Expect(false, let.op, "other is defined and has the result's type");
  }
  return absl::OkStatus();
}

absl::Status CheckResultType(const Let& let, std::span<const DType> args) {
  switch (let.op) {
    case Op::kConst:
      return Expect(Canonical(let.type, let.imm) == let.imm, let.op, "the constant's bits fit its type");
    case Op::kIndex:
      return Expect(let.type == DType::kInt64, let.op, "the result is an i64");
    case Op::kLoad:
      return absl::OkStatus();
    case Op::kCast:
      return absl::OkStatus();
    case Op::kBitcast:
      return Expect(ByteSize(let.type) == ByteSize(args[0]) && let.type != DType::kBool && args[0] != DType::kBool,
                    let.op, "both types have one size and none is bool");
    default:
      break;
  }
  absl::StatusOr<DType> type = InferType(let.op, args);
  if (!type.ok()) return type.status();
  return Expect(*type == let.type, let.op, absl::StrCat("the result is a ", Str(Name(*type))));
}

}  // namespace

absl::StatusOr<DType> InferType(Op op, std::span<const DType> args) {
  if (args.size() != static_cast<size_t>(Arity(op))) return BadOperands(op, args);
  if (op == Op::kSelect) {
    if (args[0] != DType::kBool || args[1] != args[2] || !IsLoopType(args[1])) return BadOperands(op, args);
    return args[1];
  }
  if (op == Op::kCheckIndex) {
    if (args[0] != DType::kInt64) return BadOperands(op, args);
    return DType::kInt64;
  }
  if (RuleOf(op) == Rule::kSpecial) return Expect(false, op, "its type does not follow from its operands");
  for (DType type : args) {
    if (type != args[0] || !Admits(RuleOf(op), type)) return BadOperands(op, args);
  }
  return RuleOf(op) == Rule::kCompare ? DType::kBool : args[0];
}

absl::Status CheckLet(const Let& let, std::span<const Buffer> buffers, TypeOfFn type_of) {
  if (let.args.size() != static_cast<size_t>(Arity(let.op))) return Expect(false, let.op, "wrong number of operands");
  if (!IsLoopType(let.type)) return Expect(false, let.op, "complex types are not values");
  std::vector<DType> types;
  for (ValueId arg : let.args) {
    std::optional<DType> type = type_of(arg);
    if (!type) return Expect(false, let.op, absl::StrCat("operand v", arg, " is not defined"));
    types.push_back(*type);
  }
  if (let.op == Op::kLoad) {
    if (absl::Status s = CheckLoad(let, buffers, type_of); !s.ok()) return s;
  } else if (let.buffer != kNone || let.mask != kNone || let.other != kNone) {
    return Expect(false, let.op, "only a load has a buffer, mask and other");
  }
  if (let.op != Op::kConst && let.imm != 0) return Expect(false, let.op, "only a constant has bits");
  return CheckResultType(let, types);
}

absl::Status CheckStore(const Store& store, std::span<const Buffer> buffers, TypeOfFn type_of) {
  if (absl::Status s = CheckAccess(store.buffer, buffers, Access::kRead, "written"); !s.ok()) return s;
  const std::optional<DType> type = type_of(store.value);
  if (!type) return absl::InvalidArgumentError(absl::StrCat("stored value v", store.value, " is not defined"));
  if (*type != buffers[store.buffer].dtype) {
    return absl::InvalidArgumentError(absl::StrCat("stored value v", store.value, " is a ", Str(Name(*type)),
                                                   ", buffer b", store.buffer, " has ",
                                                   Str(Name(buffers[store.buffer].dtype))));
  }
  return CheckMask(store.mask, type_of);
}

}  // namespace kiln::loop
