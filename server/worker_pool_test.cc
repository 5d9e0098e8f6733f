#include "server/worker_pool.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/status.h"

namespace kiln {
namespace {

using absl::StatusCode;

constexpr absl::Duration kPatience = absl::Seconds(60);

std::string FakeWorker() {
  char* folder = get_current_dir_name();
  const std::string path = absl::StrCat(folder, "/server/fake_worker");
  free(folder);
  return path;
}

class Pool : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(folder_), nullptr);
    setenv("TMPDIR", folder_, 1);
  }
  void TearDown() override {
    pool_.reset();
    for (const std::string& file : files_) unlink(file.c_str());
    EXPECT_EQ(rmdir(folder_), 0) << "workers left something in " << folder_;
  }

  void StartPool(uint32_t count, absl::Duration job_limit = kPatience, uint32_t jobs_per_worker = 1000) {
    WorkerPoolOptions options;
    options.count = count;
    options.command.program = FakeWorker();
    options.command.memory_bytes = 1 << 30;
    options.job_limit = job_limit;
    options.jobs_per_worker = jobs_per_worker;
    absl::StatusOr<std::unique_ptr<WorkerPool>> pool = WorkerPool::Start(options, NullLogger());
    ASSERT_TRUE(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
  }

  std::string File(const std::string& name) {
    files_.push_back(absl::StrCat(folder_, "/", name));
    return files_.back();
  }

  static JobSpec Spec(const std::string& text, uint64_t compile = 1) {
    JobSpec spec;
    spec.job.mutable_codegen()->mutable_kernel()->set_text(text);
    spec.job.mutable_codegen()->set_target("t");
    spec.compile = compile;
    spec.deadline = absl::Now() + kPatience;
    return spec;
  }
  JobResult Run(const std::string& text) { return pool_->Run(Spec(text)); }

  // Waits until `condition`, at most for kPatience.
  static bool Eventually(const std::function<bool()>& condition) {
    const absl::Time end = absl::Now() + kPatience;
    while (!condition()) {
      if (absl::Now() > end) return false;
      absl::SleepFor(absl::Milliseconds(2));
    }
    return true;
  }
  size_t Count(const std::string& state) {
    size_t n = 0;
    for (const v1::WorkerStatus& w : pool_->Workers()) n += w.state() == state;
    return n;
  }

  char folder_[32] = "/tmp/kiln-pool-XXXXXX";
  std::vector<std::string> files_;
  std::unique_ptr<WorkerPool> pool_;
};

TEST_F(Pool, RunsAJob) {
  StartPool(1);
  const JobResult r = Run("hello");
  ASSERT_TRUE(r.status.ok()) << r.status;
  EXPECT_EQ(r.reply.codegen().object(), "object of hello for t\n");
  EXPECT_EQ(r.attempts, 1);
  EXPECT_GT(r.worker, 0);
  EXPECT_GT(r.busy, absl::ZeroDuration());
}

TEST_F(Pool, ErrorsAreAnswersAndCostNoWorker) {
  StartPool(1);
  const pid_t pid = Run("x").worker;
  const JobResult r = Run("fake.invalid:7");
  EXPECT_EQ(r.status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(NodeOfStatus(r.status), 7);
  EXPECT_FALSE(IsCrashed(r.status));
  EXPECT_EQ(Run("fake.throw").status.code(), StatusCode::kInternal);
  EXPECT_EQ(Run("x").worker, pid);
  EXPECT_EQ(pool_->restarts(), 0u);
}

TEST_F(Pool, ACrashIsRetriedOnceElsewhere) {
  StartPool(2);
  const JobResult r = Run("fake.crash_once:" + File("once"));
  ASSERT_TRUE(r.status.ok()) << r.status;
  EXPECT_EQ(r.attempts, 2);
  EXPECT_EQ(pool_->restarts(), 1u);
}

TEST_F(Pool, TwoCrashesGiveUp) {
  StartPool(1);
  const JobResult r = Run("fake.crash");
  EXPECT_TRUE(IsCrashed(r.status));
  EXPECT_EQ(r.status.code(), StatusCode::kInternal);
  EXPECT_EQ(std::string(r.status.message()),
            "the codegen job cost 2 workers: killed by signal 6 (Aborted), then killed by signal 6 (Aborted)");
  EXPECT_EQ(r.attempts, 2);
  EXPECT_TRUE(Run("after").status.ok());
  EXPECT_EQ(pool_->restarts(), 2u);
}

TEST_F(Pool, WhatKilledWorkersLeaveIsRemoved) {
  StartPool(1);
  EXPECT_TRUE(IsCrashed(Run("fake.litter").status));
  EXPECT_TRUE(Run("after").status.ok());
}

TEST_F(Pool, GarbageAndOversizedAnswersAreCrashes) {
  StartPool(1);
  for (const char* text : {"fake.garbage", "fake.oversized"}) {
    const JobResult r = Run(text);
    EXPECT_TRUE(IsCrashed(r.status)) << text << r.status;
  }
  EXPECT_TRUE(Run("after").status.ok());
}

TEST_F(Pool, AStoppedWorkerIsEndedByTheJobsLimit) {
  StartPool(1, absl::Milliseconds(300));
  const JobResult r = Run("fake.stop");
  EXPECT_TRUE(IsCrashed(r.status));
  EXPECT_EQ(r.status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(std::string(r.status.message()),
            "the codegen job cost 2 workers: ended after 300ms, then ended after 300ms");
}

TEST_F(Pool, AWorkerStoppedFromOutsideIsEndedToo) {
  StartPool(1, absl::Seconds(1));
  const std::string go = File("go");
  std::thread stopper([&] {
    ASSERT_TRUE(Eventually([&] { return Count("busy") == 1; }));
    ASSERT_EQ(kill(static_cast<pid_t>(pool_->Workers()[0].pid()), SIGSTOP), 0);
    std::ofstream(go) << "x";  // the retry may end
  });
  const JobResult r = Run("fake.wait_for:" + go);
  stopper.join();
  EXPECT_TRUE(r.status.ok()) << r.status;
  EXPECT_EQ(r.attempts, 2);
}

TEST_F(Pool, TheCompilesDeadlineIsNoCrash) {
  StartPool(1);
  JobSpec spec = Spec("fake.hang");
  spec.deadline = absl::Now() + absl::Milliseconds(200);
  const JobResult r = pool_->Run(std::move(spec));
  EXPECT_EQ(r.status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(IsCrashed(r.status));
}

TEST_F(Pool, AQueuedJobEndsAtItsDeadline) {
  StartPool(1);
  const std::string go = File("go");
  std::thread blocker([&] { EXPECT_TRUE(Run("fake.wait_for:" + go).status.ok()); });
  ASSERT_TRUE(Eventually([&] { return Count("busy") == 1; }));
  JobSpec spec = Spec("x");
  spec.deadline = absl::Now() + absl::Milliseconds(50);
  const JobResult r = pool_->Run(std::move(spec));
  EXPECT_EQ(r.status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(r.attempts, 0);
  std::ofstream(go) << "x";
  blocker.join();
}

TEST_F(Pool, CancellingEndsQueuedAndRunningJobs) {
  StartPool(1);
  std::stop_source stop;
  std::vector<std::thread> threads;
  std::atomic<int> cancelled = 0;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      JobSpec spec = Spec("fake.hang");
      spec.stop = stop.get_token();
      cancelled += pool_->Run(std::move(spec)).status.code() == StatusCode::kCancelled;
    });
  }
  ASSERT_TRUE(Eventually([&] { return pool_->queued() == 2 && Count("busy") == 1; }));
  stop.request_stop();
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(cancelled, 3);
  EXPECT_EQ(pool_->restarts(), 0u);
  EXPECT_TRUE(Run("after").status.ok());
}

TEST_F(Pool, AlreadyCancelled) {
  StartPool(1);
  std::stop_source stop;
  stop.request_stop();
  JobSpec spec = Spec("fake.hang");
  spec.stop = stop.get_token();
  EXPECT_EQ(pool_->Run(std::move(spec)).status.code(), StatusCode::kCancelled);
}

TEST_F(Pool, AnIdleWorkerThatDiesIsReplaced) {
  StartPool(2);
  ASSERT_TRUE(Eventually([&] { return Count("idle") == 2; }));
  const int64_t pid = pool_->Workers()[0].pid();
  kill(static_cast<pid_t>(pid), SIGKILL);
  ASSERT_TRUE(Eventually([&] {
    const v1::WorkerStatus w = pool_->Workers()[0];
    return w.state() == "idle" && w.pid() != pid;
  }));
  EXPECT_EQ(pool_->restarts(), 1u);
}

TEST_F(Pool, MemoryIsLimited) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "no RLIMIT_AS under sanitizers";
#endif
#endif
  StartPool(1);
  EXPECT_EQ(Run("fake.alloc_mib:2000").status.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Run("fake.alloc_mib:100").status.ok());
}

TEST_F(Pool, WorkersAreReplacedAfterSoManyJobs) {
  StartPool(1, kPatience, 2);
  const pid_t first = Run("a").worker;
  EXPECT_EQ(Run("b").worker, first);
  EXPECT_NE(Run("c").worker, first);
  EXPECT_EQ(pool_->restarts(), 0u);
}

TEST_F(Pool, JobsRunSideBySide) {
  StartPool(2);
  const std::string a = File("a"), b = File("b");
  // Each waits for what only the other's end makes... so they can end only if both run.
  std::thread first([&] { EXPECT_TRUE(Run("fake.wait_for:" + a).status.ok()); });
  std::thread second([&] { EXPECT_TRUE(Run("fake.wait_for:" + b).status.ok()); });
  ASSERT_TRUE(Eventually([&] { return Count("busy") == 2; }));
  std::ofstream(a) << "x";
  std::ofstream(b) << "x";
  first.join();
  second.join();
}

TEST_F(Pool, ManyJobsFromManyThreads) {
  StartPool(2);
  std::atomic<int> ok = 0;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string text = absl::StrCat("job ", t, " ", i);
        const JobResult r = pool_->Run(Spec(text, t));
        ok += r.status.ok() && r.reply.codegen().object() == absl::StrCat("object of ", text, " for t\n");
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(ok, 400);
}

TEST_F(Pool, StartAndTickAreReported) {
  StartPool(1);
  int starts = 0, ticks = 0;
  JobSpec spec = Spec("fake.sleep_ms:1300");
  spec.on_start = [&] { ++starts; };
  spec.on_tick = [&] { ++ticks; };
  EXPECT_TRUE(pool_->Run(std::move(spec)).status.ok());
  EXPECT_EQ(starts, 1);
  EXPECT_EQ(ticks, 1);
}

TEST_F(Pool, GoingDownEndsRunningJobs) {
  StartPool(1);
  std::thread runner([&] { EXPECT_EQ(Run("fake.hang").status.code(), StatusCode::kUnavailable); });
  ASSERT_TRUE(Eventually([&] { return Count("busy") == 1; }));
  // The pool's destructor may not overlap the begin of a Run, but ends those that are under way.
  std::unique_ptr<WorkerPool> pool = std::move(pool_);
  WorkerPool* raw = pool.get();
  (void)raw;
  pool.reset();
  runner.join();
}

TEST_F(Pool, AWorkerThatCannotStartIsAnErrorAtOnce) {
  WorkerPoolOptions options;
  options.command.program = "/nonexistent/worker";
  EXPECT_EQ(WorkerPool::Start(options, NullLogger()).status().code(), StatusCode::kUnavailable);
  options.command.program = "/bin/false";
  const absl::Status s = WorkerPool::Start(options, NullLogger()).status();
  EXPECT_EQ(s.code(), StatusCode::kUnavailable);
  EXPECT_NE(std::string(s.message()).find("exited with status 1"), std::string::npos) << s;
}

}  // namespace
}  // namespace kiln
