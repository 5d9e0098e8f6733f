#include "compiler/codegen/symbol.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace kiln::codegen {

absl::Status CheckSymbol(std::string_view symbol) {
  const bool is_identifier =
      !symbol.empty() && symbol.size() <= 200 && !absl::ascii_isdigit(static_cast<unsigned char>(symbol[0])) &&
      std::all_of(symbol.begin(), symbol.end(),
                  [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; });
  return is_identifier ? absl::OkStatus() : absl::InvalidArgumentError("symbol: not a C identifier");
}

}  // namespace kiln::codegen
