#include "client/local/local_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

extern char** environ;

namespace kiln {
namespace {

constexpr size_t kMaxOutput = 64 << 10;  // bytes kept of each stream

bool IsProgram(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

// The read end of a child's stream.
struct Stream {
  int fd = -1;
  std::string text;

  // False at the end of the stream.
  bool Read() {
    std::array<char, 4096> buffer;
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) return true;
    if (n <= 0) return false;
    text.append(buffer.data(),
                std::min<size_t>(static_cast<size_t>(n), kMaxOutput - std::min(kMaxOutput, text.size())));
    return true;
  }
};

// Starts `argv` with its stdout and stderr on the write ends given and nothing blocked. The pid, or -1 with errno set.
pid_t Spawn(const std::string& program, const std::string& flag, int out, int err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  posix_spawnattr_t attr;
  posix_spawnattr_init(&attr);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attr, &none);
  posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
  std::string name = program, arg = flag;
  char* argv[] = {name.data(), arg.data(), nullptr};
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &actions, &attr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attr);
  errno = error;
  return error == 0 ? pid : -1;
}

// Reads both streams to their ends. False at the deadline.
bool Drain(std::array<Stream*, 2> streams, absl::Time deadline) {
  while (true) {
    std::array<pollfd, 2> fds;
    size_t open = 0;
    for (size_t i = 0; i < 2; ++i) {
      fds[i] = {streams[i]->fd, POLLIN, 0};
      if (streams[i]->fd >= 0) ++open;
    }
    if (open == 0) return true;
    const int64_t left = absl::ToInt64Milliseconds(deadline - absl::Now());
    if (left <= 0) return false;
    if (poll(fds.data(), fds.size(), static_cast<int>(std::min<int64_t>(left, 1000))) <= 0) continue;
    for (size_t i = 0; i < 2; ++i) {
      if (fds[i].revents != 0 && !streams[i]->Read()) {
        close(streams[i]->fd);
        streams[i]->fd = -1;
      }
    }
  }
}

// Waits for the exit status; -1 at the deadline, when the child is ended.
int Wait(pid_t pid, absl::Time deadline) {
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (absl::Now() >= deadline) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      return -1;
    }
    absl::SleepFor(absl::Milliseconds(1));
  }
  return status;
}

// The first line that `kilnd flag` prints.
absl::StatusOr<std::string> Ask(const std::string& kilnd, const std::string& flag, absl::Duration timeout) {
  if (kilnd.empty() || !IsProgram(kilnd)) {
    return absl::NotFoundError(kilnd.empty() ? "kilnd is neither beside this program nor on PATH"
                                             : absl::StrCat(kilnd, " is not a program"));
  }
  const absl::Time deadline = absl::Now() + timeout;
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0) return absl::UnavailableError(absl::StrCat("pipe: ", strerror(errno)));
  if (pipe2(err, O_CLOEXEC) != 0) {
    close(out[0]);
    close(out[1]);
    return absl::UnavailableError(absl::StrCat("pipe: ", strerror(errno)));
  }
  const pid_t pid = Spawn(kilnd, flag, out[1], err[1]);
  const int error = errno;
  close(out[1]);
  close(err[1]);
  Stream output{out[0], {}}, errors{err[0], {}};
  const bool ended = pid > 0 && Drain({&output, &errors}, deadline);
  for (Stream* s : {&output, &errors}) {
    if (s->fd >= 0) close(s->fd);
  }
  if (pid < 0) return absl::UnavailableError(absl::StrCat("cannot run ", kilnd, ": ", strerror(error)));
  const int status = Wait(pid, ended ? deadline : absl::InfinitePast());
  if (status == -1) return absl::DeadlineExceededError(absl::StrCat(kilnd, " ", flag, " took too long"));
  const std::vector<std::string> lines = absl::StrSplit(output.text, '\n');
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || lines[0].empty()) {
    return absl::UnavailableError(
        absl::StrCat(kilnd, " ", flag, " failed: ", std::string(absl::StripAsciiWhitespace(errors.text))));
  }
  return lines[0];
}

}  // namespace

std::string FindKilnd() {
  std::array<char, 4096> self;
  const ssize_t n = readlink("/proc/self/exe", self.data(), self.size());
  if (n > 0 && static_cast<size_t>(n) < self.size()) {
    const std::string exe(self.data(), static_cast<size_t>(n));
    const std::string beside = absl::StrCat(exe.substr(0, exe.rfind('/')), "/kilnd");
    if (IsProgram(beside)) return beside;
  }
  const char* path = getenv("PATH");
  for (const std::string& folder : std::vector<std::string>(absl::StrSplit(path == nullptr ? "" : path, ':'))) {
    if (folder.empty() || folder[0] != '/') continue;
    const std::string candidate = absl::StrCat(folder, "/kilnd");
    if (IsProgram(candidate)) return candidate;
  }
  return "";
}

absl::StatusOr<std::string> StartLocalDaemon(const std::string& kilnd, absl::Duration timeout) {
  return Ask(kilnd, "--local", timeout);
}

absl::StatusOr<std::string> LocalAddress(const std::string& kilnd, absl::Duration timeout) {
  return Ask(kilnd, "--local-address", timeout);
}

}  // namespace kiln
