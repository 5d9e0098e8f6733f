// One process, one owner of a directory.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace kiln {

// Holds the directory until destroyed; the end of the process ends it too, however it comes.
class DirLock {
 public:
  // Unavailable if it is held already, by this process or another, or cannot be locked.
  static absl::StatusOr<std::unique_ptr<DirLock>> Acquire(const std::string& dir);
  ~DirLock();
  DirLock(const DirLock&) = delete;
  DirLock& operator=(const DirLock&) = delete;

 private:
  explicit DirLock(int fd) : fd_(fd) {}
  const int fd_;
};

}  // namespace kiln
