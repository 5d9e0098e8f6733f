#include "server/run_tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace kiln {
namespace {

constexpr size_t kMaxOutput = 64 << 10;
constexpr int kCannotRun = 127;

// In the child: async-signal-safe calls only.
[[noreturn]] void Become(char* const* argv, const char* folder, int output, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kCannotRun);  // gone before that
  const int null = open("/dev/null", O_RDONLY);
  if (null < 0 || dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0 || chdir(folder) != 0) {
    _exit(kCannotRun);
  }
  closefrom(3);
  execv(argv[0], argv);
  constexpr char kWhy[] = "cannot be run";
  [[maybe_unused]] const ssize_t n = write(2, kWhy, sizeof kWhy - 1);
  _exit(kCannotRun);
}

// Until the end of the stream. False when the time is up.
bool ReadOutput(int fd, absl::Time deadline, std::string* output) {
  std::array<char, 4096> chunk;
  while (true) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    const int timeout = static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(left) + 1, INT_MAX));
    pollfd wait = {fd, POLLIN, 0};
    if (poll(&wait, 1, timeout) <= 0) continue;
    const ssize_t n = read(fd, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    output->append(chunk.data(), std::min(static_cast<size_t>(n), kMaxOutput - output->size()));
  }
}

}  // namespace

absl::StatusOr<ToolResult> RunTool(const std::vector<std::string>& command, const std::string& folder,
                                   absl::Time deadline) {
  std::vector<char*> argv;
  for (const std::string& arg : command) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::UnavailableError(absl::StrCat("pipe: ", strerror(errno)));
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) Become(argv.data(), folder.c_str(), ends[1], parent);
  const int error = errno;
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return absl::UnavailableError(absl::StrCat("cannot run ", command[0], ": ", strerror(error)));
  }
  ToolResult result;
  const bool ended = ReadOutput(ends[0], deadline, &result.output);
  close(ends[0]);
  if (!ended) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended) return absl::DeadlineExceededError(absl::StrCat(command[0], " did not end in time"));
  result.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (result.exit_status == kCannotRun) {
    return absl::UnavailableError(absl::StrCat(command[0], ": ", result.output));
  }
  return result;
}

}  // namespace kiln
