#include "client/cli/table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

constexpr char kBold[] = "\x1b[1m";
constexpr char kPlain[] = "\x1b[0m";

}  // namespace

std::string Printable(const std::string& text) {
  std::string out = text;
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
  }
  return out;
}

std::string Table::Text(bool bold) const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(columns_[c].name.size());
    for (const std::vector<std::string>& row : rows_) widths[c] = std::max(widths[c], row[c].size());
  }
  const auto line = [&](const auto& cell) {
    std::string out;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const std::string text = Printable(cell(c));
      const std::string space(widths[c] - text.size(), ' ');
      const bool right = columns_[c].align == Align::kRight;
      absl::StrAppend(&out, c == 0 ? "" : "  ", right ? space : "", text, right ? "" : space);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out;
  };
  std::string out = line([&](size_t c) { return columns_[c].name; });
  if (bold) out = absl::StrCat(kBold, out, kPlain);
  out += "\n";
  for (const std::vector<std::string>& row : rows_) absl::StrAppend(&out, line([&](size_t c) { return row[c]; }), "\n");
  return out;
}

}  // namespace kiln
