// The byte protocol between kilnd and a worker: a 4-byte little-endian length, then so many bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kiln {

inline constexpr size_t kMaxFrame = 256 << 20;  // bytes of payload

// Both wait for the socket until `deadline` (real time) and fail with
//   DeadlineExceeded  at the deadline
//   Unavailable       the other end is gone
//   InvalidArgument   (WriteFrame) the payload is larger than kMaxFrame; nothing has been written
//   DataLoss          (ReadFrame) the other end announces more than kMaxFrame, or ends within a frame
// After a failure the stream is of no more use. Memory grows with the bytes that arrive, not with those announced.
absl::Status WriteFrame(int fd, std::string_view payload, absl::Time deadline);
absl::StatusOr<std::string> ReadFrame(int fd, absl::Time deadline);

}  // namespace kiln
