#include <bit>
#include <charconv>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compiler/graph/builder.h"
#include "compiler/graph/text.h"
#include "compiler/graph/text_names.h"

namespace kiln {
namespace {

// One line at a time, left to right. The first error sticks; what is parsed after it has no meaning.
class Parser {
 public:
  Parser(std::string_view text, const OpResolver& resolve, std::shared_ptr<SymContext> syms)
      : rest_(text), resolve_(resolve), builder_(syms ? std::move(syms) : std::make_shared<SymContext>()) {}

  absl::StatusOr<std::shared_ptr<const Graph>> Parse() {
    if (!NextLine() || !Word("graph")) Fail("expected 'graph'");
    Header();
    while (ok() && NextLine()) Line();
    if (ok() && !returned_) Fail("expected 'return'");
    if (!ok()) {
      return absl::InvalidArgumentError(absl::StrCat("line ", line_number_, ", column ", at_ + 1, ": ", error_));
    }
    return builder_.Build();
  }

 private:
  // --- lines ---

  bool NextLine() {
    while (!rest_.empty()) {
      const size_t end = std::min(rest_.find('\n'), rest_.size());
      line_ = WithoutComment(rest_.substr(0, end));
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      ++line_number_;
      at_ = 0;
      if (Peek() != '\0') return true;
    }
    return false;
  }

  static std::string_view WithoutComment(std::string_view line) {
    bool quoted = false;
    for (size_t i = 0; i < line.size(); ++i) {
      if (quoted && line[i] == '\\') {
        ++i;
      } else if (line[i] == '"') {
        quoted = !quoted;
      } else if (!quoted && line[i] == '#') {
        return line.substr(0, i);
      }
    }
    return line;
  }

  void Header() {
    bool found = false;
    GraphLevel level = GraphLevel::kInference;
    for (const auto& [value, name] : kLevelNames) {
      if (!found && Word(name)) {
        found = true;
        level = value;
      }
    }
    if (!found) Fail("expected a level: torch, joint or inference");
    if (!ok()) return;
    builder_ = GraphBuilder(builder_.graph().shared_syms(), level);
    if (Peek() != '\0') {
      const auto primals = Attribute<uint32_t>("primals=");
      builder_.SetJointCounts(primals, Attribute<uint32_t>("forward_outputs="));
    }
    EndOfLine();
  }

  void Line() {
    if (returned_) return Fail("'return' must be the last line");
    if (Word("size")) {
      SizeLine();
    } else if (Word("op")) {
      OpLine();
    } else if (Word("input")) {
      builder_.AddSymInput(SymUntilDelimiter());
    } else if (Word("update")) {
      const auto input = Integer<uint32_t>();
      const ValueId value = Value();
      const auto inputs = builder_.graph().inputs();
      if (ok() && (input >= inputs.size() || inputs[input].value == kNoValue)) Fail("no such tensor input");
      if (ok()) builder_.AddUpdate(input, value);
    } else if (Word("return")) {
      ReturnLine();
    } else {
      ValueLine();
    }
    EndOfLine();
  }

  void SizeLine() {
    const std::string expected = absl::StrCat("s", builder_.graph().num_sizes());
    if (!Word(expected)) return Fail(absl::StrCat("expected ", expected));
    Expect('[');
    SymRange range;
    range.min = Bound();
    Expect(',');
    range.max = Bound();
    Expect(']');
    const uint32_t size_class = Peek() == 'c' ? Attribute<uint32_t>("class=") : 0;
    if (ok()) builder_.AddSize(range, size_class);
  }

  int64_t Bound() {
    if (Word("inf")) return kSymUnbounded;
    if (Word("-inf")) return std::numeric_limits<int64_t>::min();
    return Integer<int64_t>();
  }

  void OpLine() {
    const OpKey key = Operator();
    std::string schema;
    if (Peek() == '"') schema = String();
    if (ok()) ops_[key] = Resolve({key.first, std::move(schema)});
  }

  void ReturnLine() {
    returned_ = true;
    if (Peek() == '\0') return;
    do {
      if (Word("none")) {
        builder_.AddNoneOutput();
      } else if (Peek() == '%') {
        const ValueId value = Value();
        if (ok()) builder_.AddOutput(value);
      } else {
        builder_.AddSymOutput(SymUntilDelimiter());
      }
    } while (ok() && Accept(','));
  }

  // "%3 = input …", "%3 = constant …", "%3, %4 = op(…) : …", "op(…) :"
  void ValueLine() {
    std::vector<ValueId> results;
    while (Peek() == '%') {
      ++at_;
      results.push_back(Integer<ValueId>());
      if (ok() && results.back() != results[0] + results.size() - 1) return Fail("results must be consecutive");
      if (!Accept(',')) break;
    }
    if (!results.empty()) {
      Expect('=');
      // A line can skip a few ids, not make the table large.
      if (ok() && results[0] < builder_.graph().num_values())
        return Fail(absl::StrCat("%", results[0], " comes too late"));
      if (ok() && results[0] - builder_.graph().num_values() > 65536) return Fail("too many ids skipped");
      while (ok() && builder_.graph().num_values() < results[0]) builder_.SkipValue();
    }
    if (results.size() == 1 && Word("input")) {
      builder_.AddInput(Type());
    } else if (results.size() == 1 && Word("constant")) {
      TensorType type = Type();
      builder_.AddConstant(std::move(type), Hex());
    } else {
      NodeLine(results.size());
    }
  }

  using OpKey = std::pair<std::string, uint32_t>;  // name, and which of those with it
  struct Op {
    OpName name;
    const OpDef* def = nullptr;
  };

  void NodeLine(size_t num_results) {
    const OpKey key = Operator();
    if (!ok()) return;
    auto it = ops_.find(key);
    if (it == ops_.end()) it = ops_.emplace(key, Resolve({key.first, ""})).first;
    Expect('(');
    ArgList args = Args(')', 0);
    Expect(':');
    GraphBuilder::ResultTypes types;
    for (size_t i = 0; i < num_results && ok(); ++i) {
      if (i > 0) Expect(',');
      types.push_back(Word("none") ? std::nullopt : std::optional(Type()));
    }
    NodeContext context;
    if (Word("phase=backward")) context.phase = Phase::kBackward;
    if (Peek() == 'r') context.recompute = Attribute<uint32_t>("recompute=");
    if (Peek() == 'o') context.origin = Attribute<uint32_t>("origin=");
    if (!ok()) return;
    builder_.SetContext(context);
    builder_.AddNode(it->second.name, it->second.def, std::move(args), types);
  }

  Op Resolve(OpName name) {
    const OpDef* def = resolve_ ? resolve_(name) : nullptr;
    return {std::move(name), def};
  }

  // --- pieces ---

  TensorType Type() {
    TensorType type;
    const size_t start = at_;
    std::string name;
    while (at_ < line_.size() && absl::ascii_isalnum(Peek())) name += line_[at_++];
    std::optional<DType> dtype = DTypeFromName(name);
    if (!dtype) {
      at_ = start;
      Fail("expected a type");
      return type;
    }
    type.dtype = *dtype;
    Expect('[');
    type.sizes = Syms(']');
    if (ok() && Accept('{')) {
      type.strides = Syms('}');
    } else if (ok()) {
      type.strides = RowMajorStrides(builder_.syms(), type.sizes);
    }
    if (ok() && type.strides.size() != type.sizes.size()) Fail("as many strides as sizes are needed");
    if (Accept('@')) {
      std::optional<DeviceType> device = DeviceFromName(Letters());
      if (!device) Fail("expected a device");
      type.device = device.value_or(DeviceType::kCpu);
    }
    return type;
  }

  std::vector<Sym> Syms(char close) {
    std::vector<Sym> out;
    if (Accept(close)) return out;
    do {
      out.push_back(SymUntilDelimiter());
    } while (ok() && Accept(','));
    Expect(close);
    return out;
  }

  ArgList Args(char close, int depth) {
    ArgList out;
    if (Accept(close)) return out;
    do {
      out.push_back(OneArg(depth));
    } while (ok() && Accept(','));
    Expect(close);
    return out;
  }

  Arg OneArg(int depth) {
    const char c = Peek();
    if (c == '%') return {ValueRef{Value()}};
    if (c == '"') return {String()};
    if (Word("none")) return {};
    if (Word("true")) return {true};
    if (Word("false")) return {false};
    if (Accept('[')) {
      if (depth > 0) Fail("lists hold no lists");
      return {ok() ? Args(']', depth + 1) : ArgList{}};
    }
    if (Prefix("dtype:")) return {Named<DType>(DTypeFromName(Alphanumerics()), "dtype")};
    if (Prefix("device:")) return {Named<DeviceType>(DeviceFromName(Letters()), "device")};
    if (Prefix("layout:")) return {static_cast<Layout>(Integer<uint8_t>())};
    if (Prefix("format:")) {
      for (const auto& [value, name] : kMemoryFormatNames) {
        if (Word(name)) return {value};
      }
      Fail("expected a memory format");
      return {};
    }
    std::string_view token = UntilDelimiter();
    double value = 0;
    if (AsFloat(token, &value)) return {value};
    at_ = static_cast<size_t>(token.data() - line_.data());
    return {SymUntilDelimiter()};
  }

  static bool AsFloat(std::string_view token, double* value) {
    if (token.starts_with("nan:") && token.size() == 20) {
      uint64_t bits = 0;
      auto [end, error] = std::from_chars(token.data() + 4, token.data() + token.size(), bits, 16);
      *value = std::bit_cast<double>(bits);
      return error == std::errc() && end == token.data() + token.size();
    }
    if (token == "nan") {
      *value = std::bit_cast<double>(uint64_t{0x7ff8000000000000});
      return true;
    }
    const bool word = token == "inf" || token == "-inf";
    const bool digits =
        token.size() > 1 && (absl::ascii_isdigit(token[0]) || (token[0] == '-' && absl::ascii_isdigit(token[1])));
    if (!word && !(digits && token.find_first_of(".e") != token.npos)) return false;
    auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), *value);
    return error == std::errc() && end == token.data() + token.size();
  }

  template <typename T>
  T Named(std::optional<T> value, const char* what) {
    if (!value) Fail(absl::StrCat("expected a ", what));
    return value.value_or(T{});
  }

  ValueId Value() {
    Expect('%');
    const auto value = Integer<ValueId>();
    const Graph& graph = builder_.graph();
    if (ok() && (value >= graph.num_values() || !graph.type(value)))
      Fail(absl::StrCat("%", value, " is not defined here"));
    return value;
  }

  // Up to a delimiter outside parentheses.
  std::string_view UntilDelimiter() {
    Peek();
    const size_t start = at_;
    int depth = 0;
    for (; at_ < line_.size(); ++at_) {
      const char c = line_[at_];
      if (c == '(') ++depth;
      if (depth == 0 && (c == ',' || c == ')' || c == ']' || c == '}' || c == '[' || c == '{')) break;
      if (c == ')') --depth;
    }
    size_t end = at_;
    while (end > start && line_[end - 1] == ' ') --end;
    return line_.substr(start, end - start);
  }

  Sym SymUntilDelimiter() {
    Peek();
    const size_t start = at_;
    absl::StatusOr<Sym> sym = builder_.syms().Parse(UntilDelimiter());
    if (sym.ok()) return *sym;
    at_ = start;
    Fail(std::string(sym.status().message()));
    return Sym{};
  }

  OpKey Operator() {
    OpKey key;
    if (Peek() == '"') {
      key.first = String();
    } else {
      while (at_ < line_.size() && IsOpNameChar(line_[at_])) key.first += line_[at_++];
    }
    if (key.first.empty()) Fail("expected an operator");
    if (Accept('$')) key.second = Integer<uint32_t>();
    return key;
  }

  std::string String() {
    const size_t start = at_ + 1;
    for (++at_; at_ < line_.size() && line_[at_] != '"'; ++at_) {
      if (line_[at_] == '\\') ++at_;
    }
    std::string out;
    const std::string raw(line_.substr(std::min(start, line_.size()), at_ - start));
    if (at_ >= line_.size() || !absl::CUnescape(raw, &out)) Fail("bad string");
    ++at_;
    return out;
  }

  std::string Hex() {
    std::string digits = Alphanumerics();
    if (digits.size() % 2 != 0 || digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
      Fail("expected bytes as hexadecimal digits");
      return "";
    }
    return absl::HexStringToBytes(digits);
  }

  std::string Alphanumerics() {
    std::string out;
    Peek();
    while (at_ < line_.size() && absl::ascii_isalnum(line_[at_])) out += line_[at_++];
    return out;
  }

  std::string Letters() {
    std::string out;
    while (at_ < line_.size() && absl::ascii_isalpha(line_[at_])) out += line_[at_++];
    return out;
  }

  template <typename T>
  T Integer() {
    Peek();
    T value{};
    auto [end, error] = std::from_chars(line_.data() + at_, line_.data() + line_.size(), value);
    if (error != std::errc()) {
      Fail("expected an integer");
      return T{};
    }
    at_ = static_cast<size_t>(end - line_.data());
    return value;
  }

  template <typename T>
  T Attribute(std::string_view name) {
    if (!Prefix(name)) Fail(absl::StrCat("expected ", std::string(name)));
    return ok() ? Integer<T>() : T{};
  }

  // --- characters ---

  char Peek() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) ++at_;
    return at_ < line_.size() ? line_[at_] : '\0';
  }

  bool Accept(char c) {
    if (!ok() || Peek() != c) return false;
    ++at_;
    return true;
  }

  void Expect(char c) {
    if (!Accept(c)) Fail(absl::StrCat("expected '", std::string(1, c), "'"));
  }

  bool Prefix(std::string_view text) {
    Peek();
    if (!ok() || line_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }

  // `text` as a whole word.
  bool Word(std::string_view text) {
    Peek();
    const size_t end = at_ + text.size();
    if (!ok() || line_.substr(at_, text.size()) != text) return false;
    if (end < line_.size() && (IsOpNameChar(line_[end]) || line_[end] == '$' || line_[end] == '(')) return false;
    at_ = end;
    return true;
  }

  void EndOfLine() {
    if (ok() && Peek() != '\0') Fail("unexpected text");
  }

  bool ok() const { return error_.empty(); }
  void Fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
  }

  std::string_view rest_;
  const OpResolver& resolve_;
  GraphBuilder builder_;
  absl::flat_hash_map<OpKey, Op> ops_;
  std::string_view line_;
  size_t line_number_ = 0;
  size_t at_ = 0;
  bool returned_ = false;
  std::string error_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Graph>> ParseGraph(std::string_view text, const OpResolver& resolve,
                                                        std::shared_ptr<SymContext> syms) {
  return Parser(text, resolve, std::move(syms)).Parse();
}

}  // namespace kiln
