#include "client/cli/format.h"

#include <algorithm>
#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace kiln {
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

}  // namespace kiln
