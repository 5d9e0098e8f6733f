// Messages that name a field of the request.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace kiln {

// "graph.nodes" and 12: "graph.nodes[12]".
inline std::string At(const std::string& path, int64_t index) { return absl::StrCat(path, "[", index, "]"); }

inline absl::Status Invalid(const std::string& path, const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", message));
}

inline absl::Status Unsupported(const std::string& path, const std::string& message) {
  return absl::UnimplementedError(absl::StrCat(path, ": ", message));
}

// OK if `count` is at most `limit`.
inline absl::Status CheckLimit(const std::string& path, int64_t count, int64_t limit) {
  if (count <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(path, ": ", count, ", the limit is ", limit));
}

}  // namespace kiln
