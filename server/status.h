// What a status of the server carries besides its code and message, and how it crosses gRPC.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace kiln {

// The worker that ran the job died, and so did the one that tried again. `code` is kInternal, or kDeadlineExceeded
// where both were killed for taking too long.
absl::Status CrashedError(absl::StatusCode code, const std::string& message);
bool IsCrashed(const absl::Status& status);

// The request was turned away before it became a compile; it may be sent again after `wait`.
absl::Status RefusedError(absl::StatusCode code, const std::string& message, absl::Duration wait);
std::optional<absl::Duration> RetryAfter(const absl::Status& status);  // none: not a RefusedError

// The node of the request's graph at fault; -1: none.
void SetNode(absl::Status& status, int64_t node);
int64_t NodeOfStatus(const absl::Status& status);

// The digest (hex) of the stored request that shows the failure; empty: none.
void SetReproducer(absl::Status& status, const std::string& hex);
std::string ReproducerOf(const absl::Status& status);

}  // namespace kiln
