// Words of the text form, shared by printer and parser. Private to text_*.cc.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "compiler/graph/graph.h"

namespace kiln {

inline constexpr std::array<std::pair<GraphLevel, std::string_view>, 3> kLevelNames = {
    {{GraphLevel::kTorch, "torch"}, {GraphLevel::kJoint, "joint"}, {GraphLevel::kInference, "inference"}}};

inline constexpr std::array<std::pair<MemoryFormat, std::string_view>, 4> kMemoryFormatNames = {
    {{MemoryFormat::kContiguous, "contiguous"},
     {MemoryFormat::kPreserve, "preserve"},
     {MemoryFormat::kChannelsLast, "channels_last"},
     {MemoryFormat::kChannelsLast3d, "channels_last_3d"}}};

inline std::string_view LevelName(GraphLevel level) {
  for (const auto& [value, name] : kLevelNames) {
    if (value == level) return name;
  }
  return "?";
}

inline std::string_view MemoryFormatName(MemoryFormat format) {
  for (const auto& [value, name] : kMemoryFormatNames) {
    if (value == format) return name;
  }
  return "?";
}

inline bool IsOpNameChar(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == ':'; }

// Whether an operator's name is written without quotes.
inline bool IsPlainOpName(std::string_view name) {
  if (name.empty() || absl::ascii_isdigit(name[0])) return false;
  for (char c : name) {
    if (!IsOpNameChar(c)) return false;
  }
  return name != "update" && name != "return" && name != "input" && name != "size" && name != "op" &&
         name != "constant";
}

}  // namespace kiln
