// Where a user's own daemon keeps its things: the rule of the local daemon, in one place.
//
//   cache directory   $XDG_CACHE_HOME/kiln, else ~/.cache/kiln
//   socket            kiln-<build>-v<protocol>.sock in $XDG_RUNTIME_DIR/kiln, else in the cache directory; in
//                     /tmp/kiln-<uid> under a name that carries a hash of that directory where the path would not fit
//   lock              the socket's path + ".lock", held while a daemon is being started
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kiln {

inline constexpr size_t kMaxSocketPath = 107;  // bytes: what sockaddr_un takes

// What the rule depends on; empty strings for variables that are not set.
struct LocalEnv {
  std::string xdg_cache_home;
  std::string xdg_runtime_dir;
  std::string home;  // $HOME, else the password file's
  uid_t uid = 0;

  static LocalEnv FromProcess();
};

// FailedPrecondition without any home. Creates nothing.
absl::StatusOr<std::string> LocalCacheDir(const LocalEnv& env);

// The socket's absolute path, at most kMaxSocketPath bytes. Creates nothing.
absl::StatusOr<std::string> LocalSocketPath(const LocalEnv& env, std::string_view build, int protocol_version);

// Makes the directory, and its parents, with mode 0700. FailedPrecondition, saying which, if it exists and belongs to
// another user or is open to others.
absl::Status MakePrivateDir(const std::string& path, uid_t uid);

// An exclusive flock on a file, until destruction or the end of the process.
class FileLock {
 public:
  // Waits. Unavailable where the file cannot be made.
  static absl::StatusOr<FileLock> Take(const std::string& path);
  FileLock(FileLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace kiln
