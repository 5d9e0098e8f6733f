#include "server/kilnd_main.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/mutex.h"
#include "compiler/artifact/abi.h"
#include "server/build_id.h"
#include "server/command_line.h"
#include "server/config.h"
#include "server/crash_points.h"
#include "server/cuda_tools.h"
#include "server/daemon.h"
#include "server/local_paths.h"
#include "server/local_start.h"
#include "server/signals.h"
#include "server/worker_main.h"

namespace kiln {
namespace {

constexpr char kSelf[] = "/proc/self/exe";
constexpr char kUnixScheme[] = "unix:";
constexpr double kLocalIdleSeconds = 1800;

int Fail(const absl::Status& status) {
  fprintf(stderr, "kilnd: %s\n", std::string(status.message()).c_str());
  return 1;
}

void Say(const std::string& line) {
  printf("%s\n", line.c_str());
  fflush(stdout);
}

std::string LogPath(const std::string& cache_dir) { return absl::StrCat(cache_dir, "/kilnd.log"); }

// Starts the local daemon unless it runs, with the flags that were given here.
int EnsureLocal(int argc, char** argv, const LocalEnv& env, const std::string& socket) {
  const absl::StatusOr<std::string> cache_dir = LocalCacheDir(env);
  if (!cache_dir.ok()) return Fail(cache_dir.status());
  std::vector<std::string> command = {"kilnd", "--local", "--foreground"};
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) != "--local") command.push_back(argv[i]);
  }
  if (absl::Status s = EnsureDaemon(socket, LogPath(*cache_dir), kSelf, command, env); !s.ok()) return Fail(s);
  Say(absl::StrCat(kUnixScheme, socket));
  return 0;
}

// Fills in what the rule of the local daemon says where the configuration does not, and makes the folders.
absl::Status ApplyLocalRule(const CommandLine& line, const LocalEnv& env, const std::string& socket,
                            v1::Config* config) {
  if (line.mode == CommandLine::Mode::kLocalServe) {
    config->clear_listen();
    if (config->idle_exit_seconds() == 0) config->set_idle_exit_seconds(kLocalIdleSeconds);
  }
  if (config->listen().empty()) {
    if (absl::Status s = MakePrivateDir(socket.substr(0, socket.rfind('/')), env.uid); !s.ok()) return s;
    config->add_listen(absl::StrCat(kUnixScheme, socket));
  }
  if (config->data_dir().empty()) {
    const absl::StatusOr<std::string> cache_dir = LocalCacheDir(env);
    if (!cache_dir.ok()) return cache_dir.status();
    config->set_data_dir(*cache_dir);
  }
  return absl::OkStatus();
}

// A cache in trouble is no reason not to compile: without a folder of our own, entries are kept in memory.
void CheckDataDir(const LocalEnv& env, const Logger& log, v1::Config* config) {
  const absl::Status status = MakePrivateDir(config->data_dir(), env.uid);
  if (status.ok()) return;
  log->error("no cache on disk: {}", std::string(status.message()));
  config->clear_data_dir();
}

// Prints the addresses, and leaves stdout to nobody: whoever reads it sees its end.
void PrintAddresses(const Daemon& daemon) {
  for (const std::string& address : daemon.addresses()) Say(address);
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null >= 0) {
    dup2(null, STDOUT_FILENO);
    close(null);
  }
}

// Carries the request to leave from the signals' thread to a daemon that may not be there yet, or no more.
class ExitRequest {
 public:
  void Ask() {
    MutexLock lock(&mu_);
    asked_ = true;
    if (life_ != nullptr) life_->RequestExit();
  }
  // Null: the daemon is about to go.
  void SetDaemon(Lifecycle* life) {
    MutexLock lock(&mu_);
    life_ = life;
    if (asked_ && life_ != nullptr) life_->RequestExit();
  }

 private:
  Mutex mu_;
  bool asked_ ABSL_GUARDED_BY(mu_) = false;
  Lifecycle* life_ ABSL_GUARDED_BY(mu_) = nullptr;
};

int Serve(const CommandLine& line, const LocalEnv& env, const std::string& build, const std::string& socket,
          const Compiler& compiler) {
  DaemonOptions options;
  options.config = line.config;
  if (absl::Status s = ApplyLocalRule(line, env, socket, &options.config); !s.ok()) return Fail(s);
  if (absl::Status s = CompleteConfig(&options.config); !s.ok()) return Fail(s);
  absl::StatusOr<Logger> log = MakeLogger(options.config.logging());
  if (!log.ok()) return Fail(log.status());
  CheckDataDir(env, *log, &options.config);
  absl::StatusOr<PublishHook> hook = CrashPoint(line.debug_crash_at);
  if (!hook.ok()) return Fail(hook.status());
  options.log = *log;
  options.publish_hook = *std::move(hook);
  const absl::StatusOr<CudaTools> cuda = FindCudaTools(options.config.cuda(), CudaEnv::FromProcess());
  if (!cuda.ok()) return Fail(cuda.status());
  (*log)->info("{}", cuda->Describe());
  options.build = cuda->BuildWith(build);
  options.cuda = *cuda;
  options.worker_program = kSelf;
  options.targets = compiler.targets;
  options.assemble_for = compiler.assemble_for;
  if (compiler.ops) options.ops = compiler.ops();

  ExitRequest exit;
  SignalWatcher signals([&](int number) {
    (*log)->info("signal {}: draining", number);
    exit.Ask();
  });
  absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start(std::move(options));
  if (!daemon.ok()) return Fail(daemon.status());
  exit.SetDaemon(&(*daemon)->life());
  PrintAddresses(**daemon);
  if (!(*daemon)->Run()) (*log)->warn("compiles were still in flight when the time to drain was up");
  (*log)->info("leaving");
  exit.SetDaemon(nullptr);
  daemon->reset();
  return 0;
}

}  // namespace

int KilndMain(int argc, char** argv, const Compiler& compiler) {
  if (IsWorkerCommand(argc, argv)) WorkerMain(argc, argv, compiler.jobs);
  const std::variant<CommandLine, int> parsed = ParseCommandLine(argc, argv, std::cout, std::cerr);
  if (const int* status = std::get_if<int>(&parsed)) return *status;
  const CommandLine& line = std::get<CommandLine>(parsed);
  prctl(PR_SET_NAME, "kilnd");  // what was started as /proc/self/exe is called "exe" otherwise
  umask(077);
  signal(SIGPIPE, SIG_IGN);
  const absl::StatusOr<std::string> build = ComputeBuildId();
  if (!build.ok()) return Fail(build.status());
  if (line.mode == CommandLine::Mode::kPrintBuild) {
    Say(*build);
    return 0;
  }
  const LocalEnv env = LocalEnv::FromProcess();
  const bool needs_socket = line.mode != CommandLine::Mode::kServe || line.config.listen().empty();
  absl::StatusOr<std::string> socket = std::string();
  if (needs_socket) socket = LocalSocketPath(env, *build, kProtocolVersion);
  if (!socket.ok()) return Fail(socket.status());
  switch (line.mode) {
    case CommandLine::Mode::kLocalAddress:
      Say(absl::StrCat(kUnixScheme, *socket));
      return 0;
    case CommandLine::Mode::kLocal:
      return EnsureLocal(argc, argv, env, *socket);
    default:
      return Serve(line, env, *build, *socket, compiler);
  }
}

}  // namespace kiln
