// Constants of the loop IR as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/graph/type.h"

namespace kiln::loop {

// "true", "-7", "0x1.8p+1", "inf", "nan(0x7fc00000)". `bits` are those of Let::imm; equal bits and only those give
// equal text.
std::string ConstText(DType type, uint64_t bits);

// Reads it back; also decimal floats, which are rounded to `type`. Nothing if `text` is no constant of that type.
std::optional<uint64_t> ConstFromText(DType type, std::string_view text);

}  // namespace kiln::loop
