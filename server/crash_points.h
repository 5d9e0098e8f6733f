// kilnd --debug-crash-at=STEP: ends the process at a step of a publication, as a crash would. For tests.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cache/store_options.h"

namespace kiln {

inline constexpr int kCrashPointExitStatus = 42;

// A hook that leaves by _exit(kCrashPointExitStatus) at the step called `name` ("planned", "blobs_staged",
// "records_staged", "committed", "acknowledged"). Empty name: null. InvalidArgument names the steps.
absl::StatusOr<PublishHook> CrashPoint(const std::string& name);

}  // namespace kiln
