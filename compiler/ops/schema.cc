#include "compiler/ops/schema.h"

#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n'; }
bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == ':';
}

std::optional<ArgKind> KindFromName(std::string_view name) {
  static constexpr std::pair<std::string_view, ArgKind> kNames[] = {
      {"Tensor", ArgKind::kTensor},
      {"Scalar", ArgKind::kScalar},
      {"int", ArgKind::kInt},
      {"SymInt", ArgKind::kInt},
      {"float", ArgKind::kFloat},
      {"bool", ArgKind::kBool},
      {"str", ArgKind::kString},
      {"ScalarType", ArgKind::kDType},
      {"Layout", ArgKind::kLayout},
      {"Device", ArgKind::kDevice},
      {"MemoryFormat", ArgKind::kMemoryFormat},
      {"Generator", ArgKind::kGenerator},
  };
  for (const auto& [text, kind] : kNames) {
    if (text == name) return kind;
  }
  return std::nullopt;
}

// A cursor over the text. Every step moves forward, so parsing is linear.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  absl::StatusOr<Schema> Parse() {
    Schema schema;
    schema.name = std::string(Word());
    if (schema.name.empty() || !Take("(")) return Error("a name and '('");
    bool keyword_only = false;
    while (!Take(")")) {
      if (!schema.args.empty() || keyword_only) {
        if (!Take(",")) return Error("',' or ')'");
      }
      if (Take("*")) {
        keyword_only = true;
        continue;
      }
      absl::StatusOr<SchemaArg> arg = ParseArg();
      if (!arg.ok()) return arg.status();
      arg->keyword_only = keyword_only;
      schema.args.push_back(*std::move(arg));
    }
    if (!Take("->")) return Error("'->'");
    if (absl::Status s = ParseResults(schema.results); !s.ok()) return s;
    Skip();
    if (at_ != text_.size()) return Error("the end");
    return schema;
  }

 private:
  struct Type {
    ArgKind kind = ArgKind::kTensor;
    bool list = false, optional = false, optional_item = false, written = false;
  };

  // Tensor, Tensor(a!), Tensor(a -> *)[], SymInt[2]?, Tensor?[], Tensor|Scalar
  absl::StatusOr<Type> ParseType() {
    std::optional<ArgKind> kind = KindFromName(Word());
    if (!kind) return Error("a type");
    Type type{.kind = *kind};
    if (Take("(")) type.written = SkipPast(')').find('!') != std::string_view::npos;
    if (Take("|")) {
      if (type.kind != ArgKind::kTensor || Word() != "Scalar") return Error("Tensor|Scalar");
      type.kind = ArgKind::kTensorOrScalar;
    }
    type.optional = Take("?");
    if (Take("[")) {
      SkipPast(']');
      type.list = true;
      type.optional_item = std::exchange(type.optional, Take("?"));
    }
    return type;
  }

  absl::StatusOr<SchemaArg> ParseArg() {
    absl::StatusOr<Type> type = ParseType();
    if (!type.ok()) return type.status();
    SchemaArg arg{.name = std::string(Word()),
                  .kind = type->kind,
                  .list = type->list,
                  .optional = type->optional,
                  .optional_item = type->optional_item,
                  .written = type->written};
    if (arg.name.empty()) return Error("an argument's name");
    if (Take("=")) arg.default_text = std::string(Value());
    return arg;
  }

  absl::Status ParseResults(std::vector<SchemaResult>& results) {
    const bool tuple = Take("(");
    if (tuple && Take(")")) return absl::OkStatus();
    do {
      absl::StatusOr<Type> type = ParseType();
      if (!type.ok()) return type.status();
      Word();  // a result's name
      results.push_back({.kind = type->kind, .list = type->list});
    } while (tuple && Take(","));
    if (tuple && !Take(")")) return Error("')'");
    return absl::OkStatus();
  }

  // A default: up to ',' or ')' outside of brackets and quotes.
  std::string_view Value() {
    Skip();
    const size_t begin = at_;
    bool quoted = false;
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\'' || c == '"') quoted = !quoted;
      if (quoted) continue;
      if (c == '[') ++depth;
      if (c == ']') --depth;
      if (depth == 0 && (c == ',' || c == ')')) break;
    }
    return text_.substr(begin, at_ - begin);
  }

  std::string_view Word() {
    Skip();
    const size_t begin = at_;
    while (at_ < text_.size() && IsWord(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  bool Take(std::string_view token) {
    Skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  // Through the next `end`; gives what it skips.
  std::string_view SkipPast(char end) {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_++] != end) {
    }
    return text_.substr(begin, at_ - begin);
  }

  void Skip() {
    while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  }

  absl::Status Error(const char* wanted) const {
    return absl::InvalidArgumentError(
        absl::StrCat("schema \"", std::string(text_), "\": expected ", wanted, " at column ", at_));
  }

  std::string_view text_;
  size_t at_ = 0;
};

bool KindAccepts(ArgKind ours, ArgKind theirs) {
  if (ours == theirs) return true;
  if (ours == ArgKind::kTensorOrScalar) return theirs == ArgKind::kTensor || theirs == ArgKind::kScalar;
  // A Scalar parameter takes any number.
  return ours == ArgKind::kScalar && (theirs == ArgKind::kInt || theirs == ArgKind::kFloat || theirs == ArgKind::kBool);
}

bool IsNumber(const Arg& arg) {
  return std::holds_alternative<Sym>(arg.v) || std::holds_alternative<double>(arg.v) ||
         std::holds_alternative<bool>(arg.v);
}

bool Fits(ArgKind kind, const Arg& arg) {
  switch (kind) {
    case ArgKind::kTensor:
      return arg.is_value() || IsNumber(arg);  // add.Tensor(x, 2): a number stands for a 0-dim tensor
    case ArgKind::kTensorOrScalar:
      return arg.is_value() || IsNumber(arg);
    case ArgKind::kScalar:
    case ArgKind::kFloat:
      return IsNumber(arg);
    case ArgKind::kInt:
      return std::holds_alternative<Sym>(arg.v) || std::holds_alternative<bool>(arg.v);
    case ArgKind::kBool:
      return std::holds_alternative<bool>(arg.v) || std::holds_alternative<Sym>(arg.v);
    case ArgKind::kString:
      return std::holds_alternative<std::string>(arg.v);
    case ArgKind::kDType:
      return std::holds_alternative<DType>(arg.v);
    case ArgKind::kLayout:
      return std::holds_alternative<Layout>(arg.v);
    case ArgKind::kDevice:
      return std::holds_alternative<DeviceType>(arg.v);
    case ArgKind::kMemoryFormat:
      return std::holds_alternative<MemoryFormat>(arg.v);
    case ArgKind::kGenerator:
      return false;  // None only
  }
  return false;
}

bool FitsArg(const SchemaArg& schema, const Arg& arg) {
  if (arg.is_none()) return schema.optional || schema.kind == ArgKind::kGenerator;
  if (!schema.list) return Fits(schema.kind, arg);
  const ArgList* list = arg.list();
  if (list == nullptr) return Fits(schema.kind, arg) && schema.kind == ArgKind::kInt;  // int[1] takes a lone int
  for (const Arg& item : *list) {
    if (!(item.is_none() ? schema.optional_item : Fits(schema.kind, item))) return false;
  }
  return true;
}

std::optional<Arg> ParseScalar(ArgKind kind, std::string_view text, SymContext& syms) {
  if (text == "None") return Arg{};
  if (text == "True" || text == "False") return Arg{text == "True"};
  if (kind == ArgKind::kString && text.size() >= 2) return Arg{std::string(text.substr(1, text.size() - 2))};
  if (kind == ArgKind::kMemoryFormat && text == "contiguous_format") return Arg{MemoryFormat::kContiguous};
  if (kind == ArgKind::kMemoryFormat && text == "preserve_format") return Arg{MemoryFormat::kPreserve};
  if (kind == ArgKind::kDType) {
    const std::optional<DType> dtype = DTypeFromName(text);
    return dtype ? std::optional<Arg>(Arg{*dtype}) : std::nullopt;
  }
  const char* end = text.data() + text.size();
  int64_t i = 0;
  if (auto [p, e] = std::from_chars(text.data(), end, i); e == std::errc() && p == end) {
    if (kind == ArgKind::kFloat) return Arg{static_cast<double>(i)};
    return Arg{syms.Const(i)};
  }
  double d = 0;
  if (auto [p, e] = std::from_chars(text.data(), end, d); e == std::errc() && p == end) return Arg{d};
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Schema> ParseSchema(std::string_view text) { return Parser(text).Parse(); }

bool Accepts(const Schema& ours, const Schema& theirs) {
  if (ours.args.size() != theirs.args.size() || ours.results.size() != theirs.results.size()) return false;
  for (size_t i = 0; i < ours.args.size(); ++i) {
    const SchemaArg &a = ours.args[i], &b = theirs.args[i];
    if (!KindAccepts(a.kind, b.kind) || a.list != b.list) return false;
    if ((b.optional && !a.optional) || (b.optional_item && !a.optional_item)) return false;
  }
  for (size_t i = 0; i < ours.results.size(); ++i) {
    if (ours.results[i].kind != theirs.results[i].kind || ours.results[i].list != theirs.results[i].list) return false;
  }
  return true;
}

absl::Status CheckArgs(const Schema& schema, const std::vector<Arg>& args, bool undefined) {
  if (args.size() != schema.args.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(schema.name, " takes ", schema.args.size(), " arguments, not ", args.size()));
  }
  for (size_t i = 0; i < args.size(); ++i) {
    const SchemaArg& want = schema.args[i];
    if (undefined && args[i].is_none() && want.kind == ArgKind::kTensor && !want.list) continue;
    if (!FitsArg(want, args[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat(schema.name, ": argument ", i, " (", want.name, ") is of the wrong kind"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Arg> DefaultArg(const SchemaArg& arg, SymContext& syms) {
  if (!arg.default_text) return absl::InternalError(absl::StrCat("argument ", arg.name, " has no default"));
  std::string_view text = *arg.default_text;
  if (arg.list && text.starts_with('[') && text.ends_with(']')) {
    text = text.substr(1, text.size() - 2);
    ArgList items;
    while (!text.empty()) {
      const size_t comma = std::min(text.find(','), text.size());
      std::string_view item = text.substr(0, comma);
      while (item.starts_with(' ')) item.remove_prefix(1);
      std::optional<Arg> value = ParseScalar(arg.kind, item, syms);
      if (!value) return absl::InternalError(absl::StrCat("bad default of argument ", arg.name));
      items.push_back(*std::move(value));
      text.remove_prefix(std::min(comma + 1, text.size()));
    }
    return Arg{std::move(items)};
  }
  std::optional<Arg> value = ParseScalar(arg.kind, text, syms);
  if (!value) return absl::InternalError(absl::StrCat("bad default of argument ", arg.name));
  return *std::move(value);
}

}  // namespace kiln
