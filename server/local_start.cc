#include "server/local_start.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

extern char** environ;

namespace kiln {
namespace {

constexpr off_t kMaxLogBytes = 10 << 20;
constexpr size_t kShownLogBytes = 2000;

std::string DirOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

std::string EndOf(const std::string& log_path) {
  std::ifstream in(log_path);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  return text.substr(text.size() - std::min(text.size(), kShownLogBytes));
}

// A log that has grown large gives way to a new one.
void RotateLog(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && info.st_size > kMaxLogBytes) rename(path.c_str(), (path + ".old").c_str());
}

// A child in a session of its own, its stdout on `out`, its stderr at the end of the log. -1 with errno set.
pid_t SpawnDetached(const std::string& program, std::vector<std::string> argv, const std::string& log_path, int out) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_addopen(&actions, 2, log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  // It outlives whoever asked for it; what that one has open is not its to keep.
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attr;
  posix_spawnattr_init(&attr);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attr, &none);
  posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  std::vector<char*> args;
  for (std::string& arg : argv) args.push_back(arg.data());
  args.push_back(nullptr);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &actions, &attr, args.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attr);
  errno = error;
  return error == 0 ? pid : -1;
}

// Waits until the child has written a line, or has closed its stdout without one (false), or the time is up (false).
bool WaitForLine(int fd, absl::Time deadline) {
  while (true) {
    const int64_t left = absl::ToInt64Milliseconds(deadline - absl::Now());
    if (left <= 0) return false;
    pollfd p{fd, POLLIN, 0};
    if (poll(&p, 1, static_cast<int>(std::min<int64_t>(left, 1000))) <= 0) continue;
    char c = 0;
    const ssize_t n = read(fd, &c, 1);
    if (n == 0) return false;
    if (n == 1 && c == '\n') return true;
  }
}

}  // namespace

bool IsLive(const std::string& socket_path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) return false;
  memcpy(address.sun_path, socket_path.data(), socket_path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool live = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return live;
}

absl::Status EnsureDaemon(const std::string& socket_path, const std::string& log_path, const std::string& program,
                          const std::vector<std::string>& argv, const LocalEnv& env, absl::Duration limit) {
  if (IsLive(socket_path)) return absl::OkStatus();
  for (const std::string& path : {socket_path, log_path}) {
    if (absl::Status s = MakePrivateDir(DirOf(path), env.uid); !s.ok()) return s;
  }
  const absl::StatusOr<FileLock> lock = FileLock::Take(socket_path + ".lock");
  if (!lock.ok()) return lock.status();
  if (IsLive(socket_path)) return absl::OkStatus();  // another has started it meanwhile

  RotateLog(log_path);
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) return absl::UnavailableError(absl::StrCat("pipe: ", strerror(errno)));
  const pid_t pid = SpawnDetached(program, argv, log_path, out[1]);
  const int error = errno;
  close(out[1]);
  const bool up = pid > 0 && WaitForLine(out[0], absl::Now() + limit);
  close(out[0]);
  if (pid < 0) return absl::UnavailableError(absl::StrCat("cannot run ", program, ": ", strerror(error)));
  if (up) return absl::OkStatus();
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  return absl::UnavailableError(
      absl::StrCat("the daemon did not start; its log, ", log_path, ", ends with:\n", EndOf(log_path)));
}

}  // namespace kiln
