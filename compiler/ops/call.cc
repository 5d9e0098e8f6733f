#include "compiler/ops/op_def.h"

namespace kiln {
namespace {

const TensorType kNoType{};

std::optional<Sym> AsSym(const Arg& arg, SymContext& syms) {
  if (const Sym* sym = std::get_if<Sym>(&arg.v)) return *sym;
  if (const bool* b = std::get_if<bool>(&arg.v)) return syms.Const(*b ? 1 : 0);
  return std::nullopt;
}

ValueId AsValue(const Arg& arg) {
  const auto* ref = std::get_if<ValueRef>(&arg.v);
  return ref ? ref->id : kNoValue;
}

}  // namespace

ValueId Call::value(size_t i) const { return i < num_args() ? AsValue(arg(i)) : kNoValue; }

const TensorType& Call::type(size_t i) const {
  const ValueId v = value(i);
  const TensorType* type = v == kNoValue ? nullptr : graph_.type(v);
  return type ? *type : kNoType;
}

const TensorType& Call::result(size_t i) const {
  const TensorType* type = i < node_.num_results ? graph_.type(node_.first_result + static_cast<ValueId>(i)) : nullptr;
  return type ? *type : kNoType;
}

Sym Call::Int(size_t i, int64_t otherwise) const {
  std::optional<Sym> sym;
  if (i < num_args()) sym = AsSym(arg(i), syms());
  return sym ? *sym : syms().Const(otherwise);
}

int64_t Call::ConstInt(size_t i, int64_t otherwise) const {
  return syms().AsConst(Int(i, otherwise)).value_or(otherwise);
}

double Call::Number(size_t i, double otherwise) const {
  if (i >= num_args()) return otherwise;
  if (const double* d = std::get_if<double>(&arg(i).v)) return *d;
  const std::optional<Sym> sym = AsSym(arg(i), syms());
  const std::optional<int64_t> value = sym ? syms().AsConst(*sym) : std::nullopt;
  return value ? static_cast<double>(*value) : otherwise;
}

bool Call::IsFloatNumber(size_t i) const { return i < num_args() && std::holds_alternative<double>(arg(i).v); }

bool Call::Bool(size_t i, bool otherwise) const { return ConstInt(i, otherwise ? 1 : 0) != 0; }

std::vector<Sym> Call::Ints(size_t i) const {
  std::vector<Sym> result;
  if (i >= num_args()) return result;
  if (const ArgList* list = arg(i).list()) {
    for (const Arg& item : *list) result.push_back(AsSym(item, syms()).value_or(Sym{}));
  } else if (std::optional<Sym> one = AsSym(arg(i), syms())) {
    result.push_back(*one);  // torch takes a lone int for int[1]
  }
  return result;
}

std::vector<int64_t> Call::ConstInts(size_t i) const {
  std::vector<int64_t> result;
  for (Sym s : Ints(i)) result.push_back(syms().AsConst(s).value_or(0));
  return result;
}

std::vector<ValueId> Call::Values(size_t i) const {
  std::vector<ValueId> result;
  if (i >= num_args()) return result;
  if (const ArgList* list = arg(i).list()) {
    for (const Arg& item : *list) result.push_back(AsValue(item));
  }
  return result;
}

std::string_view Call::String(size_t i) const {
  const std::string* s = i < num_args() ? std::get_if<std::string>(&arg(i).v) : nullptr;
  return s ? std::string_view(*s) : std::string_view();
}

}  // namespace kiln
