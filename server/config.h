// kilnd's configuration: proto/config.proto, read from a text file, completed and checked.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/config.pb.h"

namespace kiln {

// InvalidArgument lists every syntax error and unknown field as "NAME:LINE: what", one a line.
absl::StatusOr<v1::Config> ParseConfig(const std::string& text, std::string_view name);

// NotFound where `path` cannot be read.
absl::StatusOr<v1::Config> LoadConfig(const std::string& path);

// Fills in the defaults that config.proto names (not those of `listen` and `data_dir`: local_paths.h) and checks the
// rest: InvalidArgument names the field.
absl::Status CompleteConfig(v1::Config* config);

}  // namespace kiln
