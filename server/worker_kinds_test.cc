// What the two kinds of workers may do, and what becomes of the programs that one of them runs.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/testing/test_client.h"
#include "server/worker_pool.h"

namespace kiln {
namespace {

using absl::StatusCode;

std::string Contents(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// Whether there is no such process, or nothing but what its parent has yet to reap.
bool IsGone(const std::string& pid) {
  const std::string stat = Contents(absl::StrCat("/proc/", pid, "/stat"));
  return stat.empty() || absl::StrContains(stat, ") Z ");
}

class WorkerKinds : public testing::Test {
 protected:
  void StartPool(bool assembles, absl::Duration job_limit = kTestPatience) {
    WorkerPoolOptions options;
    options.command = {TestProgram("fake_worker"), 1 << 30, assembles};
    options.job_limit = job_limit;
    absl::StatusOr<std::unique_ptr<WorkerPool>> pool = WorkerPool::Start(options, NullLogger());
    ASSERT_TRUE(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
  }
  JobResult Compile(const std::string& instruction) {
    JobSpec spec;
    spec.job.mutable_codegen()->mutable_kernel()->set_text("fake." + instruction);
    return pool_->Run(std::move(spec));
  }
  JobResult Assemble(const std::string& instruction) {
    JobSpec spec;
    spec.job.mutable_assemble()->set_ptx(absl::StrCat("assemble_", instruction, "#"));
    spec.job.mutable_assemble()->add_archs("sm_90");
    return pool_->Run(std::move(spec));
  }

  std::string Script(const std::string& text, const std::string& shell = "/bin/sh") {
    const std::string path = folder_.File("script");
    std::ofstream(path) << "#!" << shell << "\n" << text << "\n";
    chmod(path.c_str(), 0700);
    return path;
  }
  // Runs until it is killed, and so does its own child; a second one ends at once.
  std::string EndlessScript() {
    return Script(absl::StrCat("cd ", folder_.path(), "; [ -e self ] && exit\nsleep 600 & echo $! >child\n",
                               "echo $$ >part; mv part self; wait"));
  }
  void ExpectScriptIsGone() {
    for (const char* name : {"self", "child"}) {
      const std::string pid(absl::StripAsciiWhitespace(Contents(folder_.File(name))));
      ASSERT_NE(pid, "") << name;
      EXPECT_TRUE(Eventually([&] { return IsGone(pid); })) << name;
    }
  }

  TestFolder folder_;
  std::unique_ptr<WorkerPool> pool_;
};

TEST_F(WorkerKinds, ACompilingOneRunsNoProgramsAndOpensNoSockets) {
  StartPool(/*assembles=*/false);
  EXPECT_EQ(Compile("run:/bin/true").status, absl::UnavailableError("/bin/true: cannot be run"));
  EXPECT_EQ(Compile("socket").status.code(), StatusCode::kPermissionDenied);
}

TEST_F(WorkerKinds, AnAssemblingOneRunsProgramsAndOpensNoSockets) {
  StartPool(/*assembles=*/true);
  EXPECT_TRUE(Assemble("run:/bin/true").status.ok());
  EXPECT_EQ(Assemble("run:" + Script("echo it ran")).status, absl::InternalError("it ran\n"));
  EXPECT_EQ(Assemble("socket").status.code(), StatusCode::kPermissionDenied);
}

TEST_F(WorkerKinds, TheProgramsAreUnderTheSameRules) {
  StartPool(/*assembles=*/true);
  const absl::Status socket = Assemble("run:" + Script(": <>/dev/tcp/127.0.0.1/9", "/bin/bash")).status;
  EXPECT_TRUE(absl::StrContains(std::string(socket.message()), "Operation not permitted")) << socket;
  EXPECT_EQ(Assemble("run:" + Script("ulimit -c; ulimit -s; ulimit -n")).status,
            absl::InternalError("0\n65536\n256\n"));
}

TEST_F(WorkerKinds, EachRefusesTheOthersJobs) {
  StartPool(/*assembles=*/false);
  EXPECT_EQ(Assemble("run:/bin/true").status, absl::InternalError("a job for another kind of worker"));
  StartPool(/*assembles=*/true);
  EXPECT_EQ(Compile("sleep_ms:0").status, absl::InternalError("a job for another kind of worker"));
}

TEST_F(WorkerKinds, AKilledOneTakesItsProgramsAlong) {
  StartPool(/*assembles=*/true);
  std::thread killer([&] {
    ASSERT_TRUE(Eventually([&] { return FileSize(folder_.File("self")) > 0; }));
    ASSERT_EQ(kill(static_cast<pid_t>(pool_->Workers()[0].pid()), SIGKILL), 0);
  });
  const JobResult r = Assemble("run:" + EndlessScript());
  killer.join();
  EXPECT_TRUE(r.status.ok()) << r.status;
  EXPECT_EQ(r.attempts, 2);
  ExpectScriptIsGone();
}

TEST_F(WorkerKinds, SoDoesOneThatTakesTooLong) {
  StartPool(/*assembles=*/true, absl::Seconds(1));
  const JobResult r = Assemble("run:" + EndlessScript());
  EXPECT_TRUE(r.status.ok()) << r.status;
  EXPECT_EQ(r.attempts, 2);
  ExpectScriptIsGone();
}

TEST_F(WorkerKinds, AndOneThatIsNoLongerWaitedFor) {
  StartPool(/*assembles=*/true);
  std::stop_source stop;
  std::thread stopper([&] {
    ASSERT_TRUE(Eventually([&] { return FileSize(folder_.File("self")) > 0; }));
    stop.request_stop();
  });
  JobSpec spec;
  spec.job.mutable_assemble()->set_ptx(absl::StrCat("assemble_run:", EndlessScript(), "#"));
  spec.stop = stop.get_token();
  EXPECT_EQ(pool_->Run(std::move(spec)).status.code(), StatusCode::kCancelled);
  stopper.join();
  ExpectScriptIsGone();
}

}  // namespace
}  // namespace kiln
