// Log lines: text or JSON, each with the id of the request that it is about.
#pragma once

#include <spdlog/logger.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "proto/config.pb.h"

namespace kiln {

// Thread-safe. A logger's name is the request id on its lines; that of the daemon's own lines is "-".
using Logger = std::shared_ptr<spdlog::logger>;

// As `config` says. InvalidArgument where the file cannot be written.
absl::StatusOr<Logger> MakeLogger(const v1::Config::Logging& config);

// The same sinks and level, another id.
Logger ForRequest(const Logger& base, const std::string& request_id);

// A logger that writes nowhere, for tests.
Logger NullLogger();

// `asked` if it is fit to be an id (1 to 64 of [A-Za-z0-9._:/-]), else a new one, unique within this process.
std::string RequestId(const std::string& asked);

}  // namespace kiln
