// One worker process, as its parent sees it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kiln {

struct WorkerCommand {
  std::string program;  // run as `kilnd --worker --memory-bytes=N`, and `--assembles`
  uint64_t memory_bytes = 4ull << 30;
  bool assembles = false;  // see RunJob (worker_main.h)
};

// Not thread-safe, but for Kill. The thread that starts a process must outlive it: the kernel ends the child with it.
class WorkerProcess {
 public:
  // Returns once the child says that it is ready. Unavailable, with its fate, where it does not within `limit`.
  // The child gets no environment but KILN_*, the loader's and the sanitizers' variables, and a TMPDIR of its own; and
  // nothing but descriptors 0-3.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(const WorkerCommand& command, absl::Duration limit);

  // Kills and reaps, and removes what the child left in its TMPDIR.
  ~WorkerProcess();

  pid_t pid() const { return pid_; }
  int fd() const { return fd_; }  // readable when the child speaks or is gone

  // Fail as WriteFrame and ReadFrame do.
  absl::Status Send(std::string_view job, absl::Time deadline);
  absl::StatusOr<std::string> Receive(absl::Time deadline);

  // SIGKILL, which stopped processes obey too, to it and whatever it has started. Thread-safe until Reap or the
  // destructor begins.
  void Kill();

  // Kills, waits, and says what became of it: "killed by signal 11 (Segmentation fault)", "exited with status 1".
  // `killed` tells a death by Kill's signal from others only in so far as the signal is the same.
  std::string Reap();

 private:
  WorkerProcess(pid_t pid, int fd, std::string scratch) : pid_(pid), fd_(fd), scratch_(std::move(scratch)) {}

  const pid_t pid_;
  const int fd_;
  const std::string scratch_;  // the child's TMPDIR
  bool reaped_ = false;
};

}  // namespace kiln
