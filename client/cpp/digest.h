// SHA-256 of blobs, as proto/artifact.proto's Digest names them.
#pragma once

#include <string>
#include <string_view>

#include "proto/artifact.pb.h"

namespace kiln {

v1::Digest DigestOf(std::string_view bytes);
bool Matches(const v1::Digest& digest, std::string_view bytes);
std::string Hex(const v1::Digest& digest);  // of the hash, for messages

}  // namespace kiln
