#include "server/unix_listener.h"

#include <errno.h>
#include <fcntl.h>
#include <grpcpp/server_posix.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/local_paths.h"

namespace kiln {
namespace {

constexpr int kBacklog = 1024;
constexpr int kOutOfDescriptorsPauseMs = 50;
constexpr int kLowestConnection = 128;

absl::Status Failed(const std::string& what, const std::string& path) {
  return absl::UnavailableError(absl::StrCat(what, " ", path, ": ", strerror(errno)));
}

bool SomebodyListens(const sockaddr_un& address) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return true;
  const bool connected = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  // Only a refusal proves that nobody is there; a full backlog, say, does not.
  const bool refused = !connected && (errno == ECONNREFUSED || errno == ENOENT);
  close(fd);
  return !refused;
}

absl::Status RemoveStale(const sockaddr_un& address, const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode)) return absl::AlreadyExistsError(absl::StrCat(path, " exists and is not a socket"));
  if (SomebodyListens(address)) return absl::AlreadyExistsError(absl::StrCat("another daemon listens on ", path));
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return Failed("cannot remove the dead socket", path);
  return absl::OkStatus();
}

// Descriptor numbers of connections go round a wide range, so that the number of one that has just been closed is not
// another's while a call of the first is still being looked at.
class Numbers {
 public:
  Numbers() {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    end_ = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 16)) * 3 / 4;
  }

  // `fd` under another number; `fd` itself if there is none free.
  int Renumber(int fd) {
    if (next_ >= end_) next_ = kLowestConnection;
    const int renumbered = fcntl(fd, F_DUPFD_CLOEXEC, next_);
    if (renumbered < 0) return fd;
    close(fd);
    next_ = renumbered + 1;
    return renumbered;
  }

 private:
  int next_ = kLowestConnection;
  int end_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<UnixListener>> UnixListener::Bind(const std::string& path, mode_t mode) {
  if (path.empty() || path[0] != '/') {
    return absl::InvalidArgumentError(absl::StrCat("unix:", path, ": want an absolute path"));
  }
  if (path.size() > kMaxSocketPath) {
    return absl::InvalidArgumentError(absl::StrCat("unix:", path, ": longer than ", kMaxSocketPath, " bytes"));
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), path.size());
  if (absl::Status s = RemoveStale(address, path); !s.ok()) return s;
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return Failed("no socket for", path);
  // Nobody can connect before listen(), so the mode is right from the first moment that matters.
  struct stat info;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || chmod(path.c_str(), mode) != 0 ||
      stat(path.c_str(), &info) != 0 || listen(fd, kBacklog) != 0) {
    const absl::Status status = Failed("cannot listen on", path);
    close(fd);
    return status;
  }
  const int wake = eventfd(0, EFD_CLOEXEC);
  return std::unique_ptr<UnixListener>(new UnixListener(path, fd, wake, info.st_dev, info.st_ino));
}

void UnixListener::Serve(grpc::Server* server) {
  thread_ = std::thread([this, server] { AcceptLoop(server); });
}

void UnixListener::AcceptLoop(grpc::Server* server) {
  Numbers numbers;
  while (true) {
    pollfd fds[] = {{fd_, POLLIN, 0}, {wake_, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return;
    if (fds[1].revents != 0) return;
    const int connection = accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (connection >= 0) {
      grpc::AddInsecureChannelFromFd(server, numbers.Renumber(connection));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      poll(&fds[1], 1, kOutOfDescriptorsPauseMs);
    }
  }
}

void UnixListener::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  if (write(wake_, &one, sizeof one) != sizeof one) return;  // cannot happen: the counter is 0
  thread_.join();
}

UnixListener::~UnixListener() {
  struct stat info;
  if (lstat(path_.c_str(), &info) == 0 && info.st_dev == dev_ && info.st_ino == ino_) unlink(path_.c_str());
  Stop();
  close(fd_);
  close(wake_);
}

}  // namespace kiln
