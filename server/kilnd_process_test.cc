// The daemon as a process: signals, start and stop, the local daemon, crash points.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/local/local_daemon.h"
#include "server/crash_points.h"
#include "server/testing/test_client.h"

extern char** environ;

namespace kiln {
namespace {

// A child process whose stdout is read line by line. Killed at the end.
class Child {
 public:
  explicit Child(std::vector<std::string> args) {
    int out[2];
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    out_ = out[0];
  }
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_);
  }

  // Empty at the end of the output.
  std::string Line() {
    std::string line;
    for (char c; read(out_, &c, 1) == 1 && c != '\n';) line.push_back(c);
    return line;
  }
  void Signal(int number) const { kill(pid_, number); }
  pid_t pid() const { return pid_; }

  // The exit status, 256 + the signal that killed it, or -1 if it does not end in time.
  int Wait() {
    int status = 0;
    if (!Eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; })) return -1;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
};

class KilndProcess : public testing::Test {
 protected:
  void SetUp() override {
    // What the local daemon's rule looks at.
    setenv("XDG_CACHE_HOME", folder_.File("cache").c_str(), 1);
    setenv("XDG_RUNTIME_DIR", folder_.File("run").c_str(), 1);
    mkdir(folder_.File("run").c_str(), 0700);
  }
  void TearDown() override {
    for (const pid_t pid : detached_) kill(pid, SIGKILL);
  }

  std::string Socket() const { return folder_.File("s.sock"); }
  std::vector<std::string> Command(const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> out = {
        TestProgram("fake_kilnd"),  "--listen=unix:" + Socket(), "--data-dir=" + folder_.File("data"), "--workers=2",
        "--worker-memory-mib=1024", "--log-level=warn"};
    out.insert(out.end(), flags.begin(), flags.end());
    return out;
  }
  // Starts a daemon and waits until it listens.
  std::unique_ptr<Child> Start(const std::vector<std::string>& flags = {}) {
    auto child = std::make_unique<Child>(Command(flags));
    EXPECT_EQ(child->Line(), "unix:" + Socket());
    return child;
  }

  TestFolder folder_;
  std::set<pid_t> detached_;  // daemons that are nobody's children
};

TEST_F(KilndProcess, SigtermLeavesWithZeroAndTakesSocketAndWorkersAlong) {
  const auto kilnd = Start();
  TestClient client("unix:" + Socket());
  ASSERT_TRUE(client.Compile(TestRequest({"kernel.a"})).done().has_record());
  std::vector<pid_t> workers;
  ASSERT_TRUE(Eventually([&] { return (workers = client.IdleWorkers()).size() == 2; }));
  kilnd->Signal(SIGTERM);
  EXPECT_EQ(kilnd->Wait(), 0);
  EXPECT_NE(access(Socket().c_str(), F_OK), 0);
  for (const pid_t worker : workers) EXPECT_TRUE(Eventually([&] { return kill(worker, 0) != 0; })) << worker;
}

TEST_F(KilndProcess, SigtermFinishesWhatRuns) {
  const auto kilnd = Start();
  const std::string go = folder_.File("go");
  CompileAnswer answer;
  std::thread running([&] {
    TestClient client("unix:" + Socket());
    // The kernels' names are the object code: too large to travel inline.
    std::vector<std::string> ops = {"fake.wait_for:" + go};
    for (const char c : {'a', 'b', 'c'}) ops.push_back("kernel." + std::string(40'000, c));
    answer = client.Compile(TestRequest(ops));
  });
  TestClient client("unix:" + Socket());
  ASSERT_TRUE(Eventually([&] { return client.Status().running() == 1; }));
  kilnd->Signal(SIGINT);
  ASSERT_TRUE(Eventually([&] { return client.Status().state() == "draining"; }));
  Touch(go);
  running.join();
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.done().outcome(), v1::Done::COMPILED);
  EXPECT_EQ(answer.done().shared_object().size(), answer.done().record().shared_object().size());
  EXPECT_GT(answer.done().shared_object().size(), 100'000u);  // it could not fetch
  EXPECT_EQ(kilnd->Wait(), 0);
}

TEST_F(KilndProcess, ASecondSignalEndsItAtOnce) {
  const auto kilnd = Start({"--drain-seconds=600"});
  std::thread running([&] {
    TestClient client("unix:" + Socket());
    EXPECT_EQ(client.Compile(TestRequest({"fake.hang"})).status.error_code(), grpc::StatusCode::UNAVAILABLE);
  });
  TestClient client("unix:" + Socket());
  ASSERT_TRUE(Eventually([&] { return client.Status().running() == 1; }));
  kilnd->Signal(SIGTERM);
  ASSERT_TRUE(Eventually([&] { return client.Status().state() == "draining"; }));
  kilnd->Signal(SIGTERM);
  EXPECT_EQ(kilnd->Wait(), 128 + SIGTERM);
  running.join();
}

TEST_F(KilndProcess, WorkersDoNotOutliveAKilledDaemon) {
  const auto kilnd = Start();
  TestClient client("unix:" + Socket());
  std::vector<pid_t> workers;
  ASSERT_TRUE(Eventually([&] { return (workers = client.IdleWorkers()).size() == 2; }));
  kilnd->Signal(SIGKILL);
  EXPECT_EQ(kilnd->Wait(), 256 + SIGKILL);
  for (const pid_t worker : workers) EXPECT_TRUE(Eventually([&] { return kill(worker, 0) != 0; })) << worker;
  const auto again = Start();  // over the dead socket
  EXPECT_EQ(TestClient("unix:" + Socket()).Status().pid(), again->pid());
}

// A script; its path.
std::string Script(const std::string& path, const std::string& text) {
  std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
  chmod(path.c_str(), 0700);
  return path;
}

TEST_F(KilndProcess, NorDoesWhatTheyRun) {
  const std::string ptxas = Script(folder_.File("ptxas"), "echo version 13"), pid_file = folder_.File("pid");
  const std::string endless =
      Script(folder_.File("endless"),
             absl::StrCat("echo $$ >", pid_file, ".part; mv ", pid_file, ".part ", pid_file, "; exec sleep 600"));
  std::ofstream(folder_.File("config")) << "cuda { ptxas: '" << ptxas << "' }\n";
  const auto kilnd = Start({"--config=" + folder_.File("config")});
  std::thread running([&] {
    v1::CompileRequest request = TestRequest({absl::StrCat("kernel.assemble_run:", endless, "#")});
    request.mutable_target()->set_name("sm_90");
    EXPECT_FALSE(TestClient("unix:" + Socket()).Compile(request).status.ok());
  });
  pid_t pid = 0;
  EXPECT_TRUE(Eventually([&] { return static_cast<bool>(std::ifstream(pid_file) >> pid); }));
  kilnd->Signal(SIGKILL);
  EXPECT_EQ(kilnd->Wait(), 256 + SIGKILL);
  running.join();
  ASSERT_GT(pid, 0);
  EXPECT_TRUE(Eventually([&] { return kill(pid, 0) != 0; }));
}

TEST_F(KilndProcess, ToolsArePartOfTheBuildInKeysAndOnlyThere) {
  std::string build[2];
  for (const char* version : {"13.0", "13.1"}) {
    Script(folder_.File("ptxas"), absl::StrCat("echo version ", version));
    std::ofstream(folder_.File("config")) << "cuda { ptxas: '" << folder_.File("ptxas") << "' }\n";
    const auto kilnd = Start({"--config=" + folder_.File("config")});
    TestClient client("unix:" + Socket());
    build[version == std::string("13.1")] = client.Status().build();
    EXPECT_EQ(client.Compile(TestRequest({"kernel.a"})).done().outcome(), v1::Done::COMPILED);
    EXPECT_EQ(client.Compile(TestRequest({"kernel.a"})).done().outcome(), v1::Done::HIT);
    Child printed({TestProgram("fake_kilnd"), "--print-build"});
    const std::string of_program = printed.Line();
    EXPECT_EQ(of_program.size(), 12u);
    EXPECT_NE(client.Status().build(), of_program);
    kilnd->Signal(SIGTERM);
    EXPECT_EQ(kilnd->Wait(), 0);
  }
  EXPECT_NE(build[0], build[1]);
}

TEST_F(KilndProcess, ACrashAtAnyStepOfAPublicationTearsNothing) {
  for (const char* step : {"planned", "blobs_staged", "records_staged", "committed", "acknowledged"}) {
    {
      const auto good = Start();
      TestClient client("unix:" + Socket());
      ASSERT_TRUE(client.Compile(TestRequest({"aten.earlier"})).done().has_record()) << step;
      good->Signal(SIGTERM);
      ASSERT_EQ(good->Wait(), 0);
    }
    const std::vector<std::string> ops = {absl::StrCat("aten.", step)};
    {
      const auto kilnd = Start({absl::StrCat("--debug-crash-at=", step)});
      TestClient client("unix:" + Socket());
      EXPECT_FALSE(client.Compile(TestRequest(ops)).status.ok());
      EXPECT_EQ(kilnd->Wait(), kCrashPointExitStatus);
    }
    const auto after = Start();
    TestClient client("unix:" + Socket());
    EXPECT_EQ(client.Compile(TestRequest({"aten.earlier"})).done().outcome(), v1::Done::HIT) << step;
    const bool durable = std::string(step) == "committed" || std::string(step) == "acknowledged";
    EXPECT_EQ(client.Compile(TestRequest(ops)).done().outcome(), durable ? v1::Done::HIT : v1::Done::COMPILED) << step;
  }
}

TEST_F(KilndProcess, BadStartsAreToldAndLeaveWithTheirStatus) {
  EXPECT_EQ(Child({TestProgram("fake_kilnd"), "--nonsense"}).Wait(), 2);
  EXPECT_EQ(Child(Command({"--workers=5000"})).Wait(), 1);
  EXPECT_EQ(Child(Command({"--listen=nowhere:x"})).Wait(), 1);
  EXPECT_EQ(Child(Command({"--debug-crash-at=never"})).Wait(), 1);
  std::ofstream(folder_.File("config")) << "cuda { ptxas: '/no/ptxas' }\n";
  EXPECT_EQ(Child(Command({"--config=" + folder_.File("config")})).Wait(), 1);
  const auto first = Start();
  EXPECT_EQ(Child(Command()).Wait(), 1);  // the socket is in use
}

TEST_F(KilndProcess, AMemoryCacheServesWhereTheDiskIsTaken) {
  const auto first = Start();
  const std::string other = folder_.File("t.sock");
  std::vector<std::string> command = Command();
  command[1] = "--listen=unix:" + other;
  Child second(command);
  EXPECT_EQ(second.Line(), "unix:" + other);
  TestClient client("unix:" + other);
  EXPECT_EQ(client.Status().data_dir(), "");
  EXPECT_EQ(client.Compile(TestRequest({"kernel.a"})).done().outcome(), v1::Done::COMPILED);
  EXPECT_EQ(client.Compile(TestRequest({"kernel.a"})).done().outcome(), v1::Done::HIT);
}

TEST_F(KilndProcess, AMemoryCacheServesWhereTheFolderIsNotOurs) {
  ASSERT_EQ(mkdir(folder_.File("data").c_str(), 0700), 0);
  chmod(folder_.File("data").c_str(), 0777);
  const auto kilnd = Start();
  EXPECT_EQ(TestClient("unix:" + Socket()).Status().data_dir(), "");
}

TEST_F(KilndProcess, ManyStartersGetOneLocalDaemon) {
  std::vector<std::thread> threads;
  std::atomic<int> started = 0;
  const std::string kilnd = TestProgram("fake_kilnd"), address = LocalAddress(kilnd).value();
  EXPECT_EQ(address.substr(0, 5 + folder_.path().size()), "unix:" + folder_.path());
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { started += StartLocalDaemon(kilnd, kTestPatience).value() == address; });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(started, 8);
  TestClient client(address);
  const pid_t pid = static_cast<pid_t>(client.Status().pid());
  detached_.insert(pid);
  EXPECT_EQ(client.Compile(TestRequest({"kernel.a"})).done().outcome(), v1::Done::COMPILED);
  EXPECT_EQ(client.Status().data_dir(), folder_.File("cache/kiln/store"));
  // A dead one is replaced, and finds the cache of the first.
  kill(pid, SIGKILL);
  ASSERT_TRUE(Eventually([&] { return kill(pid, 0) != 0; }));
  ASSERT_TRUE(StartLocalDaemon(kilnd, kTestPatience).ok());
  TestClient again(address);
  detached_.insert(static_cast<pid_t>(again.Status().pid()));
  EXPECT_NE(again.Status().pid(), pid);
  EXPECT_EQ(again.Compile(TestRequest({"kernel.a"})).done().outcome(), v1::Done::HIT);
}

TEST_F(KilndProcess, TheLocalDaemonLeavesWhenIdle) {
  Child starter({TestProgram("fake_kilnd"), "--local", "--idle-exit-seconds=0.2", "--workers=1"});
  const std::string address = starter.Line();
  EXPECT_EQ(starter.Wait(), 0);
  EXPECT_TRUE(Eventually([&] { return access(address.substr(5).c_str(), F_OK) != 0; }));
}

}  // namespace
}  // namespace kiln
