// The user's own daemon on this machine. Only kilnd knows the rule by which its socket is named (server/local_paths.h);
// a client asks the binary, so both always agree, whatever the build.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kiln {

// kilnd beside the running executable, else the first on PATH. Empty: none.
std::string FindKilnd();

// "unix:/path" of the daemon that `kilnd` starts or has started. NotFound where there is no such program,
// DeadlineExceeded after `timeout`, Unavailable with what it wrote to stderr where it failed. Thread-safe; takes some
// 30 ms where the daemon runs already.
absl::StatusOr<std::string> StartLocalDaemon(const std::string& kilnd, absl::Duration timeout = absl::Seconds(30));

// The same address, whether a daemon is there or not; starts none.
absl::StatusOr<std::string> LocalAddress(const std::string& kilnd, absl::Duration timeout = absl::Seconds(10));

}  // namespace kiln
