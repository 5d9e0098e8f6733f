// Content hashes of compiler data.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace kiln {

// SHA-256 (32 bytes) over a list of named, length-prefixed parts.
std::string Fingerprint(std::initializer_list<std::pair<std::string_view, std::string_view>> parts);

}  // namespace kiln
