#include "server/local_paths.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "cache/digest.h"

namespace kiln {
namespace {

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

// XDG's rule: a path that is not absolute is as good as none.
bool IsAbsolute(const std::string& path) { return !path.empty() && path[0] == '/'; }

std::string HomeOf(uid_t uid) {
  if (std::string home = Variable("HOME"); IsAbsolute(home)) return home;
  passwd entry;
  passwd* found = nullptr;
  std::vector<char> buffer(16 << 10);
  if (getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return "";
  return entry.pw_dir;
}

absl::Status MakeDir(const std::string& path) {
  if (path.empty() || mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  if (errno == ENOENT) {
    // Recursion as deep as the path; PATH_MAX bounds it.
    if (absl::Status s = MakeDir(path.substr(0, path.rfind('/'))); !s.ok()) return s;
    if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat("cannot make the directory ", path, ": ", strerror(errno)));
}

}  // namespace

LocalEnv LocalEnv::FromProcess() {
  const uid_t uid = geteuid();
  return {Variable("XDG_CACHE_HOME"), Variable("XDG_RUNTIME_DIR"), HomeOf(uid), uid};
}

absl::StatusOr<std::string> LocalCacheDir(const LocalEnv& env) {
  if (IsAbsolute(env.xdg_cache_home)) return absl::StrCat(env.xdg_cache_home, "/kiln");
  if (IsAbsolute(env.home)) return absl::StrCat(env.home, "/.cache/kiln");
  return absl::FailedPreconditionError("no cache directory: neither XDG_CACHE_HOME nor HOME is set");
}

absl::StatusOr<std::string> LocalSocketPath(const LocalEnv& env, std::string_view build, int protocol_version) {
  std::string folder;
  if (IsAbsolute(env.xdg_runtime_dir)) {
    folder = absl::StrCat(env.xdg_runtime_dir, "/kiln");
  } else {
    absl::StatusOr<std::string> cache = LocalCacheDir(env);
    if (!cache.ok()) return cache.status();
    folder = *std::move(cache);
  }
  const std::string name = absl::StrCat("kiln-", std::string(build), "-v", protocol_version);
  const std::string path = absl::StrCat(folder, "/", name, ".sock");
  if (path.size() <= kMaxSocketPath) return path;
  const std::string shorter =
      absl::StrCat("/tmp/kiln-", env.uid, "/", name, "-", Digest::Of(folder).Hex().substr(0, 16), ".sock");
  if (shorter.size() <= kMaxSocketPath) return shorter;
  return absl::InvalidArgumentError(
      absl::StrCat("the socket's path is longer than ", kMaxSocketPath, " bytes: ", path));
}

absl::Status MakePrivateDir(const std::string& path, uid_t uid) {
  if (absl::Status s = MakeDir(path); !s.ok()) return s;
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("cannot use ", path, ": ", strerror(errno)));
  }
  if (!S_ISDIR(info.st_mode)) return absl::FailedPreconditionError(absl::StrCat(path, " is not a directory"));
  if (info.st_uid != uid) return absl::FailedPreconditionError(absl::StrCat(path, " belongs to another user"));
  if ((info.st_mode & 022) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is writable by other users: chmod 700 it"));
  }
  return absl::OkStatus();
}

absl::StatusOr<FileLock> FileLock::Take(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return absl::UnavailableError(absl::StrCat("cannot open ", path, ": ", strerror(errno)));
  int rc;
  do {
    rc = flock(fd, LOCK_EX);
  } while (rc != 0 && errno == EINTR);
  if (rc != 0) {
    close(fd);
    return absl::UnavailableError(absl::StrCat("cannot lock ", path, ": ", strerror(errno)));
  }
  return FileLock(fd);
}

FileLock::~FileLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace kiln
