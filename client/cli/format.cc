#include "client/cli/format.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

// One expression, given the texts of the earlier ones.
std::string ExpressionText(const v1::SymExpr& e, uint32_t index, const std::vector<std::string>& earlier) {
  if (e.op() == v1::SymExpr::CONST) return absl::StrCat(e.value());
  if (e.op() == v1::SymExpr::SYMBOL) return absl::StrCat("s", e.value());
  std::vector<std::string> args;
  for (const uint32_t arg : e.args()) {
    args.push_back(arg < index ? earlier[arg] : "?");
    const bool call = e.op() == v1::SymExpr::MIN || e.op() == v1::SymExpr::MAX;
    if (!call && args.back().find_first_of(" /*%") != std::string::npos)
      args.back() = absl::StrCat("(", args.back(), ")");
  }
  std::string text = absl::StrJoin(args, Operator(e.op()));
  if (e.op() == v1::SymExpr::MIN) text = absl::StrCat("min(", text, ")");
  if (e.op() == v1::SymExpr::MAX) text = absl::StrCat("max(", text, ")");
  return text.size() > kMaxExpression ? absl::StrCat("e", index) : text;
}

std::string Symbols(const v1::SymTable& table, const google::protobuf::RepeatedField<uint32_t>& indices) {
  return absl::StrCat(
      "[", absl::StrJoin(indices, ", ", [&](std::string* out, uint32_t i) { out->append(SymText(table, i)); }), "]");
}

}  // namespace

std::string Bytes(uint64_t bytes) {
  static constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string Seconds(double seconds) {
  if (seconds < 1) return absl::StrFormat("%.1f ms", seconds * 1e3);
  if (seconds < 60) return absl::StrFormat("%.2f s", seconds);
  const auto whole = static_cast<int64_t>(std::min(seconds, 1e15));
  if (whole < 3600) return absl::StrFormat("%dm %02ds", whole / 60, whole % 60);
  if (whole < 86400) return absl::StrFormat("%dh %02dm", whole / 3600, whole / 60 % 60);
  return absl::StrFormat("%dd %02dh", whole / 86400, whole / 3600 % 24);
}

std::string Ago(int64_t unix_micros, int64_t now_unix_micros) {
  if (unix_micros == 0) return "-";
  const int64_t seconds = std::max<int64_t>(0, now_unix_micros - unix_micros) / 1'000'000;
  if (seconds < 60) return absl::StrCat(seconds, "s ago");
  return absl::StrCat(Seconds(static_cast<double>(seconds)), " ago");
}

std::string Hex(std::string_view bytes, size_t digits) {
  return absl::BytesToHexString(std::string(bytes)).substr(0, digits);
}

std::string SymText(const v1::SymTable& table, uint32_t index) {
  if (index >= static_cast<uint32_t>(table.exprs_size())) return absl::StrCat("e", index);
  // Arguments come before what uses them, and no text is long: linear.
  std::vector<std::string> texts;
  for (uint32_t i = 0; i <= index; ++i) texts.push_back(ExpressionText(table.exprs(static_cast<int>(i)), i, texts));
  return texts.back();
}

std::string TypeText(const v1::SymTable& table, const v1::TensorType& type) {
  std::string dtype = absl::AsciiStrToLower(v1::DType_Name(type.dtype()));
  if (dtype.empty()) dtype = absl::StrCat("dtype ", static_cast<int>(type.dtype()));
  return absl::StrCat(dtype, Symbols(table, type.sizes()), " strides ", Symbols(table, type.strides()), " ",
                      absl::AsciiStrToLower(v1::DeviceType_Name(type.device())));
}

}  // namespace kiln
