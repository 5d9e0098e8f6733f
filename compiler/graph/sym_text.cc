// Text of size expressions: Python's operators and precedence.
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/graph/sym_impl.h"

namespace kiln {
namespace {

using sym_internal::Atom;
using sym_internal::AtomId;
using sym_internal::AtomOp;
using sym_internal::Poly;
using sym_internal::Term;

constexpr char kVarLetter[] = {'s', 'i', 'v'};
constexpr int kMaxNesting = 200;

class Printer {
 public:
  explicit Printer(const SymContext::Impl& impl) : impl_(impl) {}

  void Sum(Sym s) {
    const Poly& poly = impl_.PolyOf(s);
    if (poly.empty()) out_ += '0';
    for (size_t i = 0; i < poly.size(); ++i) Product(poly[i], i == 0);
  }

  std::string Take() { return std::move(out_); }

 private:
  void Product(const Term& t, bool first) {
    // The least integer has no positive counterpart, so it keeps its sign.
    const bool minus = t.coefficient < 0 && t.coefficient != INT64_MIN;
    if (first && minus) out_ += '-';
    if (!first) out_ += minus ? " - " : " + ";
    const bool one = t.coefficient == 1 || t.coefficient == -1;
    // After a sign, and among factors, // and % take parentheses.
    const bool alone = t.monomial.size() == 1 && one && !(first && minus);
    for (size_t i = 0; i < t.monomial.size(); ++i) {
      if (i > 0) out_ += '*';
      Factor(impl_.atoms[t.monomial[i]], alone);
    }
    if (one && !t.monomial.empty()) return;
    if (!t.monomial.empty()) out_ += '*';
    absl::StrAppend(&out_, minus ? -t.coefficient : t.coefficient);
  }

  void Factor(const Atom& atom, bool alone) {
    switch (atom.op) {
      case AtomOp::kVar:
        out_ += kVarLetter[static_cast<int>(atom.var.kind)];
        absl::StrAppend(&out_, atom.var.index);
        return;
      case AtomOp::kMin:
      case AtomOp::kMax:
        out_ += atom.op == AtomOp::kMin ? "min(" : "max(";
        Sum(atom.a);
        out_ += ", ";
        Sum(atom.b);
        out_ += ')';
        return;
      case AtomOp::kFloorDiv:
        return Infix(atom, "//", alone);
      case AtomOp::kMod:
        return Infix(atom, " % ", alone);
      case AtomOp::kMul:
        return Infix(atom, "*", false);
      case AtomOp::kAdd:
        return Infix(atom, " + ", false);
    }
  }

  void Infix(const Atom& atom, const char* op, bool alone) {
    if (!alone) out_ += '(';
    Operand(atom.a);
    out_ += op;
    Operand(atom.b);
    if (!alone) out_ += ')';
  }

  void Operand(Sym s) {
    const std::optional<int64_t> c = impl_.AsConst(s);
    const std::optional<AtomId> atom = impl_.AsAtom(s);
    const bool plain = (c && *c >= 0) || (atom && (impl_.atoms[*atom].op == AtomOp::kVar || IsCall(*atom)));
    if (!plain) out_ += '(';
    Sum(s);
    if (!plain) out_ += ')';
  }

  bool IsCall(AtomId atom) const {
    return impl_.atoms[atom].op == AtomOp::kMin || impl_.atoms[atom].op == AtomOp::kMax;
  }

  const SymContext::Impl& impl_;
  std::string out_;
};

class Parser {
 public:
  Parser(SymContext::Impl& impl, std::string_view text) : impl_(impl), text_(text) {}

  absl::StatusOr<Sym> Parse() {
    Sym s = Sum(0);
    if (error_.empty() && Peek() != '\0') Fail("expected an operator");
    if (!error_.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("size expression '", std::string(text_.substr(0, 80)), "', offset ", at_, ": ", error_));
    }
    return s;
  }

 private:
  Sym Sum(int depth) {
    if (depth > kMaxNesting) return Fail("nested too deeply");
    std::vector<Sym> terms = {Product(depth)};
    while (error_.empty() && (Peek() == '+' || Peek() == '-')) {
      const bool minus = text_[at_++] == '-';
      Sym term = Product(depth);
      terms.push_back(minus ? impl_.Negate(term) : term);
    }
    return error_.empty() ? impl_.AddAll(terms) : Sym{};
  }

  Sym Product(int depth) {
    Sym left = Unary(depth);
    while (error_.empty()) {
      if (Accept("//")) {
        Sym right = Unary(depth);
        if (error_.empty()) left = impl_.FloorDiv(left, right);
      } else if (Accept("*")) {
        Sym right = Unary(depth);
        if (error_.empty()) left = impl_.Mul(left, right);
      } else if (Accept("%")) {
        Sym right = Unary(depth);
        if (error_.empty()) left = impl_.Mod(left, right);
      } else {
        break;
      }
    }
    return left;
  }

  Sym Unary(int depth) {
    if (!Accept("-")) return Primary(depth);
    if (depth > kMaxNesting) return Fail("nested too deeply");
    // The least integer has no positive counterpart.
    if (absl::ascii_isdigit(Peek())) return Number("-");
    return impl_.Negate(Unary(depth + 1));
  }

  Sym Primary(int depth) {
    if (absl::ascii_isdigit(Peek())) return Number("");
    if (Accept("(")) {
      Sym s = Sum(depth + 1);
      Expect(")");
      return s;
    }
    const bool min = Accept("min(");
    if (min || Accept("max(")) {
      Sym a = Sum(depth + 1);
      Expect(",");
      Sym b = Sum(depth + 1);
      Expect(")");
      return error_.empty() ? impl_.MinMax(min ? AtomOp::kMin : AtomOp::kMax, a, b) : Sym{};
    }
    for (int kind = 0; kind < 3; ++kind) {
      if (Peek() == kVarLetter[kind]) return Variable(static_cast<VarKind>(kind));
    }
    return Fail("expected a number, a variable, '(', min or max");
  }

  std::string Digits() {
    size_t begin = at_;
    while (at_ < text_.size() && absl::ascii_isdigit(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  Sym Number(std::string sign) {
    int64_t value = 0;
    if (!absl::SimpleAtoi(sign + Digits(), &value)) return Fail("number does not fit 64 bits");
    return impl_.Const(value);
  }

  Sym Variable(VarKind kind) {
    ++at_;
    uint32_t index = 0;
    if (!absl::SimpleAtoi(Digits(), &index)) return Fail("expected a variable's number");
    auto it = impl_.vars.find({kind, index});
    if (it == impl_.vars.end()) return Fail("variable is not declared");
    return it->second.sym;
  }

  char Peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool Accept(std::string_view token) {
    Peek();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  void Expect(std::string_view token) {
    if (error_.empty() && !Accept(token)) Fail("expected '" + std::string(token) + "'");
  }

  Sym Fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return Sym{};
  }

  SymContext::Impl& impl_;
  std::string_view text_;
  size_t at_ = 0;
  std::string error_;
};

}  // namespace

std::string SymContext::ToString(Sym s) const {
  Printer printer(*impl_);
  printer.Sum(s);
  return printer.Take();
}

absl::StatusOr<Sym> SymContext::Parse(std::string_view text) { return Parser(*impl_, text).Parse(); }

}  // namespace kiln
