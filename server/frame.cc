#include "server/frame.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace kiln {
namespace {

constexpr size_t kReadStep = 1 << 20;
constexpr size_t kHeader = 4;

std::array<char, kHeader> Header(size_t size) {
  std::array<char, kHeader> out;
  for (size_t i = 0; i < kHeader; ++i) out[i] = static_cast<char>(size >> (8 * i) & 0xff);
  return out;
}

size_t ParseHeader(std::string_view bytes) {
  size_t size = 0;
  for (size_t i = 0; i < kHeader; ++i) size |= static_cast<size_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return size;
}

absl::Status WaitFor(int fd, short events, absl::Time deadline) {
  while (true) {
    int timeout = -1;
    if (deadline != absl::InfiniteFuture()) {
      const absl::Duration left = deadline - absl::Now();
      if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("out of time");
      timeout = static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(left) + 1, 1 << 30));
    }
    pollfd p{fd, events, 0};
    const int n = poll(&p, 1, timeout);
    if (n > 0) return absl::OkStatus();
    if (n < 0 && errno != EINTR) return absl::UnavailableError(absl::StrCat("poll: ", strerror(errno)));
  }
}

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

absl::Status SendAll(int fd, std::string_view bytes, absl::Time deadline) {
  while (!bytes.empty()) {
    if (absl::Status s = WaitFor(fd, POLLOUT, deadline); !s.ok()) return s;
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (!WouldBlock()) {
      return absl::UnavailableError(absl::StrCat("send: ", strerror(errno)));
    }
  }
  return absl::OkStatus();
}

// Appends exactly `size` bytes; Unavailable where the stream ends.
absl::Status ReceiveAll(int fd, size_t size, absl::Time deadline, std::string* out) {
  while (size > 0) {
    if (absl::Status s = WaitFor(fd, POLLIN, deadline); !s.ok()) return s;
    const size_t have = out->size(), step = std::min(size, kReadStep);
    out->resize(have + step);
    const ssize_t n = recv(fd, out->data() + have, step, MSG_DONTWAIT);
    out->resize(have + (n > 0 ? static_cast<size_t>(n) : 0));
    if (n == 0) return absl::UnavailableError("the other end has closed");
    if (n < 0 && !WouldBlock()) return absl::UnavailableError(absl::StrCat("recv: ", strerror(errno)));
    if (n > 0) size -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteFrame(int fd, std::string_view payload, absl::Time deadline) {
  if (payload.size() > kMaxFrame) {
    return absl::InvalidArgumentError(absl::StrCat("a frame of ", payload.size(), " bytes, the bound is ", kMaxFrame));
  }
  const std::array<char, kHeader> header = Header(payload.size());
  if (absl::Status s = SendAll(fd, {header.data(), header.size()}, deadline); !s.ok()) return s;
  return SendAll(fd, payload, deadline);
}

absl::StatusOr<std::string> ReadFrame(int fd, absl::Time deadline) {
  std::string header;
  if (absl::Status s = ReceiveAll(fd, kHeader, deadline, &header); !s.ok()) {
    return absl::IsUnavailable(s) && !header.empty() ? absl::DataLossError("the stream ends within a header") : s;
  }
  const size_t size = ParseHeader(header);
  if (size > kMaxFrame) {
    return absl::DataLossError(absl::StrCat("a frame of ", size, " bytes is announced, the bound is ", kMaxFrame));
  }
  std::string payload;
  if (absl::Status s = ReceiveAll(fd, size, deadline, &payload); !s.ok()) {
    return absl::IsUnavailable(s) ? absl::DataLossError("the stream ends within a frame") : s;
  }
  return payload;
}

}  // namespace kiln
