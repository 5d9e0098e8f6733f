#include "compiler/artifact/guard_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kiln {
namespace {

constexpr size_t kMaxExpression = 120;

const char* Operator(v1::SymExpr::Op op) {
  switch (op) {
    case v1::SymExpr::ADD:
      return " + ";
    case v1::SymExpr::MUL:
      return "*";
    case v1::SymExpr::FLOOR_DIV:
      return "//";
    case v1::SymExpr::MOD:
      return " % ";
    default:
      return ", ";
  }
}

std::string SymbolText(int64_t symbol, std::span<const std::string> symbols) {
  const bool named = symbol >= 0 && static_cast<uint64_t>(symbol) < symbols.size();
  return named ? symbols[static_cast<size_t>(symbol)] : absl::StrCat("s", symbol);
}

// One expression, given the texts of the earlier ones.
std::string ExpressionText(const v1::SymExpr& e, const std::vector<std::string>& earlier,
                           std::span<const std::string> symbols) {
  if (e.op() == v1::SymExpr::CONST) return absl::StrCat(e.value());
  if (e.op() == v1::SymExpr::SYMBOL) return SymbolText(e.value(), symbols);
  const bool call = e.op() == v1::SymExpr::MIN || e.op() == v1::SymExpr::MAX;
  std::vector<std::string> args;
  for (const uint32_t arg : e.args()) {
    args.push_back(arg < earlier.size() ? earlier[arg] : "?");
    if (!call && args.back().find_first_of(" /*%") != std::string::npos) {
      args.back() = absl::StrCat("(", args.back(), ")");
    }
  }
  std::string text = absl::StrJoin(args, Operator(e.op()));
  if (e.op() == v1::SymExpr::MIN) text = absl::StrCat("min(", text, ")");
  if (e.op() == v1::SymExpr::MAX) text = absl::StrCat("max(", text, ")");
  return text.size() > kMaxExpression ? absl::StrCat("e", earlier.size()) : text;
}

std::string ListText(const std::vector<std::string>& exprs, const google::protobuf::RepeatedField<uint32_t>& indices) {
  return absl::StrCat("[",
                      absl::StrJoin(indices, ", ",
                                    [&](std::string* out, uint32_t i) {
                                      absl::StrAppend(out, i < exprs.size() ? exprs[i] : absl::StrCat("e", i));
                                    }),
                      "]");
}

}  // namespace

std::vector<std::string> SymTexts(const v1::SymTable& table, std::span<const std::string> symbols) {
  std::vector<std::string> texts;
  texts.reserve(static_cast<size_t>(table.exprs_size()));
  for (const v1::SymExpr& e : table.exprs()) texts.push_back(ExpressionText(e, texts, symbols));
  return texts;
}

std::string SymText(const v1::SymTable& table, uint32_t index) {
  const std::vector<std::string> texts = SymTexts(table);
  return index < texts.size() ? texts[index] : absl::StrCat("e", index);
}

std::string DTypeText(v1::DType dtype) {
  const std::string name = absl::AsciiStrToLower(v1::DType_Name(dtype));
  return name.empty() ? absl::StrCat("dtype ", static_cast<int>(dtype)) : name;
}

std::string DeviceText(v1::DeviceType device) {
  const std::string name = absl::AsciiStrToLower(v1::DeviceType_Name(device));
  return name.empty() ? absl::StrCat("device ", static_cast<int>(device)) : name;
}

std::string TypeText(const v1::SymTable& table, const v1::TensorType& type) {
  const std::vector<std::string> exprs = SymTexts(table);
  return absl::StrCat(DTypeText(type.dtype()), ListText(exprs, type.sizes()), " strides ",
                      ListText(exprs, type.strides()), " ", DeviceText(type.device()));
}

std::string PredicateText(const std::vector<std::string>& exprs, const v1::Predicate& p) {
  const char* op = p.op() == v1::Predicate::EQ   ? " == "
                   : p.op() == v1::Predicate::NE ? " != "
                   : p.op() == v1::Predicate::LT ? " < "
                                                 : " <= ";
  const auto text = [&](uint32_t i) { return i < exprs.size() ? exprs[i] : absl::StrCat("e", i); };
  return absl::StrCat(text(p.lhs()), op, text(p.rhs()));
}

}  // namespace kiln
