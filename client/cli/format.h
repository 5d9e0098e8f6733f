// Values as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kiln {

std::string Bytes(uint64_t bytes);                              // "0 B", "1023 B", "1.5 KiB"
std::string Seconds(double seconds);                            // "3.2 ms", "1.50 s", "2m 05s", "3h 04m", "5d 06h"
std::string Ago(int64_t unix_micros, int64_t now_unix_micros);  // "3m 10s ago"; "-" for 0
std::string Hex(std::string_view bytes, size_t digits = 64);

}  // namespace kiln
