#include "cache/dir_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <system_error>

#include "absl/strings/str_cat.h"

namespace kiln {

absl::StatusOr<std::unique_ptr<DirLock>> DirLock::Acquire(const std::string& dir) {
  const std::string path = dir + "/lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return absl::UnavailableError(absl::StrCat(path, ": ", std::generic_category().message(errno)));
  std::unique_ptr<DirLock> lock(new DirLock(fd));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0)
    return absl::UnavailableError(absl::StrCat(dir, " is in use by another process"));
  return lock;
}

DirLock::~DirLock() { close(fd_); }

}  // namespace kiln
