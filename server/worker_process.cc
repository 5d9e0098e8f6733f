#include "server/worker_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/frame.h"
#include "server/worker_main.h"

extern char** environ;

namespace kiln {
namespace {

// What a worker may know of its surroundings: the compiler's debugging switches, how to find libraries, and
// `temporary`, "TMPDIR=...".
std::vector<char*> ChildEnvironment(std::string& temporary) {
  std::vector<char*> out = {temporary.data()};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    for (const char* prefix : {"KILN_", "LD_LIBRARY_PATH=", "ASAN_", "LSAN_", "TSAN_", "UBSAN_"}) {
      if (absl::StartsWith(*variable, prefix)) {
        out.push_back(*variable);
        break;
      }
    }
  }
  out.push_back(nullptr);
  return out;
}

// The pid; -1 with errno set. The child has `socket` as kWorkerFd, our stderr, and nothing on stdin and stdout.
pid_t Spawn(const WorkerCommand& command, int socket, const std::string& scratch) {
  std::vector<std::string> args = {"kilnd", kWorkerFlag, absl::StrCat(kWorkerMemoryFlag, command.memory_bytes)};
  if (command.assembles) args.emplace_back(kWorkerAssemblesFlag);
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  std::string temporary = absl::StrCat("TMPDIR=", scratch);
  std::vector<char*> environment = ChildEnvironment(temporary);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, socket, kWorkerFd);  // clears CLOEXEC on the copy
  // Descriptors that are not close-on-exec may be somebody else's: an embedding test's, a shell's.
  posix_spawn_file_actions_addclosefrom_np(&actions, kWorkerFd + 1);
  posix_spawnattr_t attr;
  posix_spawnattr_init(&attr);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attr, &none);  // our threads block the signals that drain us
  posix_spawnattr_setsigdefault(&attr, &all);
  posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, command.program.c_str(), &actions, &attr, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attr);
  errno = error;
  return error == 0 ? pid : -1;
}

// A private directory for a worker's temporary files, which a killed one cannot remove itself.
absl::StatusOr<std::string> MakeScratch() {
  const char* temporary = getenv("TMPDIR");
  std::string path =
      absl::StrCat(temporary != nullptr && *temporary != '\0' ? temporary : "/tmp", "/kilnd-worker-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot start a worker: temporary directory ", path, ": ", strerror(errno), "; see TMPDIR"));
  }
  return path;
}

void RemoveScratch(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

std::string Fate(int status) {
  if (WIFSIGNALED(status)) {
    return absl::StrCat("killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  }
  return absl::StrCat("exited with status ", WEXITSTATUS(status));
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(const WorkerCommand& command,
                                                                    absl::Duration limit) {
  absl::StatusOr<std::string> scratch = MakeScratch();
  if (!scratch.ok()) return scratch.status();
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    const int error = errno;
    RemoveScratch(*scratch);
    return absl::UnavailableError(absl::StrCat("cannot start a worker: socketpair: ", strerror(error)));
  }
  const pid_t pid = Spawn(command, sockets[1], *scratch);
  const int error = errno;
  close(sockets[1]);
  if (pid < 0) {
    close(sockets[0]);
    RemoveScratch(*scratch);
    return absl::UnavailableError(absl::StrCat("cannot start a worker: ", command.program, ": ", strerror(error)));
  }
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess(pid, sockets[0], *std::move(scratch)));
  const absl::StatusOr<std::string> ready = worker->Receive(absl::Now() + limit);
  if (!ready.ok()) {
    return absl::UnavailableError(
        absl::StrCat("a worker did not start: ", ready.status().message(), "; it was ", worker->Reap()));
  }
  return worker;
}

WorkerProcess::~WorkerProcess() {
  Reap();
  close(fd_);
  RemoveScratch(scratch_);
}

absl::Status WorkerProcess::Send(std::string_view job, absl::Time deadline) { return WriteFrame(fd_, job, deadline); }

absl::StatusOr<std::string> WorkerProcess::Receive(absl::Time deadline) { return ReadFrame(fd_, deadline); }

void WorkerProcess::Kill() {
  kill(pid_, SIGKILL);   // it may not lead a group yet
  kill(-pid_, SIGKILL);  // what it has started, and what that has started
}

std::string WorkerProcess::Reap() {
  if (reaped_) return "reaped";
  int status = 0;
  // What died by itself keeps its own fate: a signal to a zombie has no effect.
  Kill();
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
  return Fate(status);
}

}  // namespace kiln
