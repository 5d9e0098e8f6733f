// Runs another program, waits for it, and keeps what it says.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kiln {

struct ToolResult {
  int exit_status = 0;  // 128 + its number where a signal ended it
  std::string output;   // stdout and stderr, the first 64 KiB of them
};

// `command[0]` is an absolute path. The program runs in `folder`, with nothing on stdin and no descriptors but 0-2, and
// dies with the calling thread. Unavailable where it cannot be run; DeadlineExceeded, after it has been killed.
absl::StatusOr<ToolResult> RunTool(const std::vector<std::string>& command, const std::string& folder,
                                   absl::Time deadline = absl::InfiniteFuture());

}  // namespace kiln
