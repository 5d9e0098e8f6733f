// What a message will take in memory, told from its bytes before they are parsed: two bytes on the wire can be a
// hundred in memory, and a parser has no bound of its own.
#pragma once

#include <google/protobuf/descriptor.h>

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace kiln {

// At least what `wire`, parsed as a `type` (a generated type), allocates; linear, and without allocations of its own.
// InvalidArgument: it is not such a message, or nests too deeply to be one. ResourceExhausted: more than `bound`.
absl::StatusOr<uint64_t> ParsedSize(std::string_view wire, const google::protobuf::Descriptor& type, uint64_t bound);

}  // namespace kiln
