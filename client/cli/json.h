// Messages as JSON, for programs that read kilnctl's output.
#pragma once

#include <string>
#include <string_view>

#include "google/protobuf/message.h"

namespace kiln {

// One line. Field names as in the .proto; scalar and repeated fields always, messages and members of a oneof where they
// are set; integers of any width and finite doubles as numbers (others null); bytes as lower-case hex; enums by name.
std::string ToJson(const google::protobuf::Message& message);

// A JSON string literal.
std::string JsonString(std::string_view text);

}  // namespace kiln
