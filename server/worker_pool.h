// Jobs for worker processes. The processes are started ahead and replaced when they die; a job whose worker dies is
// tried once more by another, then given up as crashed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/mutex.h"
#include "proto/admin.pb.h"
#include "proto/jobs.pb.h"
#include "server/fair_queue.h"
#include "server/logging.h"
#include "server/worker_process.h"

namespace kiln {

struct WorkerPoolOptions {
  uint32_t count = 1;
  WorkerCommand command;
  absl::Duration job_limit = absl::Seconds(120);   // real time; a job that takes longer is killed
  absl::Duration start_limit = absl::Seconds(30);  // for a process to say that it is ready
  uint32_t jobs_per_worker = 10000;                // a process is replaced after so many
};

struct JobSpec {
  v1::Job job;
  uint64_t compile = 0;  // jobs of one compile share a turn
  Priority priority = Priority::kNormal;
  absl::Time deadline = absl::InfiniteFuture();  // of the compile
  std::stop_token stop;                          // requested: the job is dropped, or its worker killed
  std::function<void()> on_start;                // a worker has it (again, after a retry); on the caller's thread
  std::function<void()> on_tick;                 // about once a second while waiting; on the caller's thread
};

struct JobResult {
  // Of the job, if a worker answered. CrashedError if two died of it; Cancelled, DeadlineExceeded (the compile's) or
  // Unavailable (no worker can be started, or the pool is going down) otherwise.
  absl::Status status;
  v1::JobReply reply;     // with a result of the job's kind if status is ok
  pid_t worker = 0;       // that answered, or died last
  int attempts = 0;       // workers that were given the job
  absl::Duration waited;  // for workers
  absl::Duration busy;    // of workers, all attempts together
};

// Thread-safe.
class WorkerPool {
 public:
  // Returns once one process is up; the others follow. Unavailable where the first does not start.
  static absl::StatusOr<std::unique_ptr<WorkerPool>> Start(WorkerPoolOptions options, Logger log);

  // Kills all processes; jobs still there end with Unavailable. No Run may begin any more.
  ~WorkerPool();

  // Waits for a worker, runs the job there.
  JobResult Run(JobSpec spec);

  std::vector<v1::WorkerStatus> Workers() const;
  size_t queued() const;
  uint64_t restarts() const;  // workers lost: crashed, killed, or ended for taking too long
  uint32_t count() const { return options_.count; }

 private:
  struct Task;
  struct Slot;
  enum class Event { kDone, kStarted, kTick };

  WorkerPool(WorkerPoolOptions options, Logger log);

  // The caller's side of a task.
  Event NextEvent(Task* task);
  void Cancel(Task* task);

  // The side of a slot: one thread each, which owns one process.
  void SlotLoop(Slot* slot);
  bool StartProcess(Slot* slot);
  Task* NextTask(Slot* slot);  // null: nothing to do yet, or the process has died
  void Attempt(Slot* slot, Task* task);
  void AfterDeath(Slot* slot, Task* task, const absl::Status& reason);
  std::string Bury(Slot* slot, bool restart);  // ends and reaps the process; what became of it
  void FailIfHopeless(const absl::Status& reason);
  bool stopping() const;

  void Finish(Task* task, absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WakeOneIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const WorkerPoolOptions options_;
  const Logger log_;
  std::vector<std::unique_ptr<Slot>> slots_;  // fixed by the constructor
  mutable Mutex mu_;
  CondVar up_;  // a process has started, or could not be
  FairQueue<Task> queue_ ABSL_GUARDED_BY(mu_);
  std::vector<Slot*> idle_ ABSL_GUARDED_BY(mu_);  // slots that sleep, the latest to fall asleep last
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t restarts_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status start_error_ ABSL_GUARDED_BY(mu_);  // of the latest start, if it failed
};

}  // namespace kiln
