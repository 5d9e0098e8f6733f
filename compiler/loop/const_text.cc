#include "compiler/loop/const_text.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/loop/scalar.h"

namespace kiln::loop {
namespace {

// "0x1.8p+1": one digit before the point, no trailing zeros; independent of the locale.
std::string HexFloat(double value) {
  std::string sign = std::signbit(value) ? "-" : "";
  if (value == 0) return sign + "0x0p+0";
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent) * 2;  // [1, 2)
  uint64_t digits = static_cast<uint64_t>(std::ldexp(fraction - 1, 52));
  std::string out = sign + "0x1";
  if (digits != 0) {
    out += '.';
    for (; digits != 0; digits = (digits << 4) & ((uint64_t{1} << 52) - 1)) out += "0123456789abcdef"[digits >> 48];
  }
  absl::StrAppend(&out, "p", exponent - 1 < 0 ? "" : "+", exponent - 1);
  return out;
}

template <typename T>
std::optional<uint64_t> ParseInt(std::string_view text, int base = 10) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return static_cast<uint64_t>(value);
}

std::optional<uint64_t> ParseNan(DType type, std::string_view text) {
  if (!text.starts_with("nan(0x") || !text.ends_with(")")) return std::nullopt;
  std::optional<uint64_t> bits = ParseInt<uint64_t>(text.substr(6, text.size() - 7), 16);
  if (!bits || Canonical(type, *bits) != *bits || !std::isnan(ToDouble(type, *bits))) return std::nullopt;
  return bits;
}

std::optional<uint64_t> ParseFloat(DType type, std::string_view text) {
  if (text.starts_with("nan")) return ParseNan(type, text);
  const bool negative = text.starts_with("-");
  if (negative) text.remove_prefix(1);
  const bool hex = text.starts_with("0x");
  if (hex) text.remove_prefix(2);
  if (text.empty() || text.size() > 64 || text[0] == '-' || text.starts_with("nan")) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value,
                                            hex ? std::chars_format::hex : std::chars_format::general);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (negative) value = -value;
  const uint64_t bits = FromDouble(type, value);
  const double rounded = ToDouble(type, bits);
  if (hex && rounded != value) return std::nullopt;  // hexadecimal is exact
  if (std::isfinite(value) != std::isfinite(rounded)) return std::nullopt;
  if (std::signbit(value) != std::signbit(rounded)) return std::nullopt;  // -0 where there is none
  return bits;
}

}  // namespace

std::string ConstText(DType type, uint64_t bits) {
  if (type == DType::kBool) return bits != 0 ? "true" : "false";
  if (IsUnsignedInt(type)) return absl::StrCat(bits);
  if (!IsFloat(type)) return absl::StrCat(static_cast<int64_t>(bits));
  const double value = ToDouble(type, bits);
  if (std::isnan(value)) return absl::StrCat("nan(0x", absl::Hex(bits), ")");
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return HexFloat(value);
}

std::optional<uint64_t> ConstFromText(DType type, std::string_view text) {
  if (type == DType::kBool) {
    if (text == "true") return 1;
    if (text == "false") return 0;
    return std::nullopt;
  }
  if (IsFloat(type)) return ParseFloat(type, text);
  if (!IsInt(type)) return std::nullopt;
  std::optional<uint64_t> bits = IsUnsignedInt(type) ? ParseInt<uint64_t>(text) : ParseInt<int64_t>(text);
  if (!bits || Canonical(type, *bits) != *bits) return std::nullopt;
  return bits;
}

}  // namespace kiln::loop
