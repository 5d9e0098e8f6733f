#include "client/cpp/schema.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

using Type = SchemaArg::Type;

constexpr std::pair<std::string_view, Type> kTypes[] = {
    {"Tensor", Type::kTensor},       {"int", Type::kInt},       {"SymInt", Type::kInt},
    {"float", Type::kFloat},         {"bool", Type::kBool},     {"Scalar", Type::kScalar},
    {"complex", Type::kScalar},      {"str", Type::kString},    {"ScalarType", Type::kDType},
    {"Layout", Type::kLayout},       {"Device", Type::kDevice}, {"MemoryFormat", Type::kMemoryFormat},
    {"Generator", Type::kGenerator},
};

bool IsNameChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == ':'; }

// Recursive descent without recursion: the grammar is flat.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  absl::StatusOr<Schema> Parse() {
    Schema schema;
    const std::string_view full = Name();
    const size_t dot = full.find('.');
    schema.name = full.substr(0, dot);
    if (dot != std::string_view::npos) schema.overload = full.substr(dot + 1);
    if (schema.name.empty() || !Take('(')) return Error();
    if (!Arguments(&schema.args)) return Error();
    if (!Take('-') || !Take('>')) return Error();
    if (Take('(')) {
      if (!Arguments(&schema.returns)) return Error();
    } else {
      std::optional<SchemaArg> arg = Argument();
      if (!arg) return Error();
      schema.returns.push_back(*std::move(arg));
    }
    Space();
    if (at_ != text_.size()) return Error();
    return schema;
  }

 private:
  absl::Status Error() const {
    return absl::InvalidArgumentError(
        absl::StrCat("schema does not parse at byte ", at_, ": ", std::string(text_.substr(0, 300))));
  }
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void Space() {
    while (Peek() == ' ') ++at_;
  }
  bool Take(char c) {
    Space();
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  std::string_view Name() {
    Space();
    const size_t begin = at_;
    while (IsNameChar(Peek())) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  // Up to and including the closing parenthesis.
  bool Arguments(std::vector<SchemaArg>* out) {
    if (Take(')')) return true;
    bool keyword_only = false;
    do {
      if (Take('*')) {
        keyword_only = true;
        continue;
      }
      std::optional<SchemaArg> arg = Argument();
      if (!arg) return false;
      arg->keyword_only = keyword_only;
      out->push_back(*std::move(arg));
    } while (Take(','));
    return Take(')');
  }

  // "Tensor(a!)? name", "SymInt[2] stride=1", "Tensor(a)[]", "float p=0.5"
  std::optional<SchemaArg> Argument() {
    SchemaArg arg;
    const std::string_view type = Name();
    if (type.empty()) return std::nullopt;
    const auto* known =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& t) { return t.first == type; });
    if (known != std::end(kTypes)) arg.type = known->second;
    while (Suffix(&arg)) {
    }
    if (failed_) return std::nullopt;
    arg.name = Name();
    if (Take('=') && !SkipDefault()) return std::nullopt;
    return arg;
  }

  // One of "(a!)", "?", "[]", "[2]" straight after a type.
  bool Suffix(SchemaArg* arg) {
    const char c = Peek();
    if (c == '?') {
      ++at_;
      // A second mark, or one after the list, belongs to the list; one before it to the items.
      arg->optional = true;
      return true;
    }
    if (c == '[') return ListSuffix(arg);
    if (c != '(') return false;
    const size_t close = text_.find(')', at_);
    if (close == std::string_view::npos) {
      failed_ = true;
      return false;
    }
    const std::string_view annotation = text_.substr(at_, close - at_);
    if (arg->type == Type::kTensor) {
      arg->alias = true;
      arg->mutated = annotation.find('!') != std::string_view::npos;
    }
    at_ = close + 1;
    return true;
  }

  bool ListSuffix(SchemaArg* arg) {
    ++at_;
    int size = 0;
    while (std::isdigit(static_cast<unsigned char>(Peek())) && size < 1000) size = size * 10 + (text_[at_++] - '0');
    if (Peek() != ']') {
      failed_ = true;
      return false;
    }
    ++at_;
    if (arg->list) arg->type = Type::kOther;  // nested
    arg->list = true;
    arg->list_size = size;
    arg->optional_item = std::exchange(arg->optional, false);
    return true;
  }

  // Up to the comma or parenthesis that ends the argument; brackets and quotes may hide others.
  bool SkipDefault() {
    int depth = 0;
    char quote = '\0';
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (quote != '\0') {
        if (c == '\\') {
          ++at_;
        } else if (c == quote) {
          quote = '\0';
        }
        continue;
      }
      if (c == '"' || c == '\'') quote = c;
      if (c == '[' || c == '(') ++depth;
      if (depth == 0 && (c == ',' || c == ')')) return true;
      if (c == ']' || c == ')') --depth;
    }
    return false;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace

absl::StatusOr<Schema> Schema::Parse(std::string_view text) { return Parser(text).Parse(); }

}  // namespace kiln
