#include "server/worker_pool.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/status.h"
#include "server/wire.h"

namespace kiln {
namespace {

constexpr absl::Duration kTick = absl::Seconds(1);
constexpr int kStartBackoffMs = 1000;
constexpr int kMaxAttempts = 2;

std::string KindName(const v1::Job& job) {
  switch (job.kind_case()) {
    case v1::Job::kPlan:
      return "plan";
    case v1::Job::kCodegen:
      return "codegen";
    case v1::Job::kLink:
      return "link";
    case v1::Job::kAssemble:
      return "assemble";
    case v1::Job::KIND_NOT_SET:
      break;
  }
  return "none";
}

bool Answers(const v1::JobReply& reply, const v1::Job& job) {
  if (reply.code() != 0) return true;
  switch (job.kind_case()) {
    case v1::Job::kPlan:
      return reply.has_plan();
    case v1::Job::kCodegen:
      return reply.has_codegen();
    case v1::Job::kLink:
      return reply.has_link();
    case v1::Job::kAssemble:
      return reply.has_assemble();
    case v1::Job::KIND_NOT_SET:
      break;
  }
  return false;
}

absl::Status StatusOf(const v1::JobReply& reply) {
  absl::Status status(static_cast<absl::StatusCode>(reply.code()), reply.message());
  if (!status.ok() && reply.node() >= 0) SetNode(status, reply.node());
  return status;
}

// Sends one job and waits for its answer.
absl::StatusOr<v1::JobReply> Exchange(WorkerProcess& process, const std::string& frame, const v1::Job& job,
                                      absl::Time deadline) {
  if (absl::Status s = process.Send(frame, deadline); !s.ok()) return s;
  const absl::StatusOr<std::string> bytes = process.Receive(deadline);
  if (!bytes.ok()) return bytes.status();
  v1::JobReply reply;
  if (!reply.ParseFromString(*bytes) || !Answers(reply, job)) return absl::DataLossError("the answer is garbage");
  return reply;
}

}  // namespace

struct WorkerPool::Task {
  explicit Task(JobSpec s) : spec(std::move(s)), frame(spec.job.SerializeAsString()), since(absl::Now()) {}

  const JobSpec spec;
  const std::string frame;
  CondVar changed;
  // All below is guarded by the pool's mutex.
  JobResult result;
  Slot* slot = nullptr;  // that has it; null: in the queue, or done
  absl::Time since;      // in the queue, or with the slot
  absl::Time ticked = since;
  int starts_told = 0;
  bool cancelled = false;
  bool done = false;
  bool always_late = true;  // every death so far was for taking too long
  std::string deaths;       // what became of the workers
};

struct WorkerPool::Slot {
  Slot() : wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Slot() { close(wake); }

  void Wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(wake, &one, sizeof one);  // full means: awake already
  }

  // Waits for Wake, or for the descriptor (-1: none) to become readable: true for the latter.
  bool Sleep(int fd, int timeout_ms) const {
    pollfd fds[] = {{wake, POLLIN, 0}, {fd, POLLIN, 0}};
    poll(fds, 2, timeout_ms);
    uint64_t ignored = 0;
    [[maybe_unused]] const ssize_t n = read(wake, &ignored, sizeof ignored);
    return fds[1].revents != 0;
  }

  const int wake;
  std::thread thread;
  // Written by the slot's thread under the pool's mutex; others read, and kill, under it.
  std::unique_ptr<WorkerProcess> process;
  Task* task = nullptr;
  uint64_t jobs = 0;  // of this process
};

absl::StatusOr<std::unique_ptr<WorkerPool>> WorkerPool::Start(WorkerPoolOptions options, Logger log) {
  if (options.count == 0) return absl::InvalidArgumentError("workers.count: 0");
  std::unique_ptr<WorkerPool> pool(new WorkerPool(std::move(options), std::move(log)));
  for (const std::unique_ptr<Slot>& slot : pool->slots_) {
    slot->thread = std::thread([p = pool.get(), s = slot.get()] { p->SlotLoop(s); });
  }
  absl::Status error;
  {
    MutexLock lock(&pool->mu_);
    const auto is_up = [](const std::unique_ptr<Slot>& s) { return s->process != nullptr; };
    while (pool->start_error_.ok() && std::none_of(pool->slots_.begin(), pool->slots_.end(), is_up)) {
      pool->up_.WaitFor(&pool->mu_, kTick);
    }
    error = pool->start_error_;
  }
  if (!error.ok()) return error;
  return pool;
}

WorkerPool::WorkerPool(WorkerPoolOptions options, Logger log) : options_(std::move(options)), log_(std::move(log)) {
  for (uint32_t i = 0; i < options_.count; ++i) slots_.push_back(std::make_unique<Slot>());
}

WorkerPool::~WorkerPool() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    while (Task* task = queue_.Pop()) Finish(task, absl::UnavailableError("the server is stopping"));
    for (const std::unique_ptr<Slot>& slot : slots_) {
      if (slot->process != nullptr) slot->process->Kill();
      slot->Wake();
    }
  }
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (slot->thread.joinable()) slot->thread.join();
  }
}

// --- the caller's side ---

JobResult WorkerPool::Run(JobSpec spec) {
  Task task(std::move(spec));
  {
    MutexLock lock(&mu_);
    if (stopping_) {
      task.result.status = absl::UnavailableError("the server is stopping");
      return std::move(task.result);
    }
    queue_.PushBack(&task, task.spec.compile, task.spec.priority);
    WakeOneIdle();
  }
  const std::stop_callback on_stop(task.spec.stop, [this, &task] { Cancel(&task); });
  while (true) {
    switch (NextEvent(&task)) {
      case Event::kStarted:
        if (task.spec.on_start) task.spec.on_start();
        break;
      case Event::kTick:
        if (task.spec.on_tick) task.spec.on_tick();
        break;
      case Event::kDone:
        return task.result;
    }
  }
}

WorkerPool::Event WorkerPool::NextEvent(Task* task) {
  MutexLock lock(&mu_);
  while (true) {
    // Before the end: a start is told even if the job was over before this thread woke.
    if (task->result.attempts != task->starts_told) {
      task->starts_told = task->result.attempts;
      return Event::kStarted;
    }
    if (task->done) return Event::kDone;
    const absl::Time now = absl::Now();
    if (now >= task->spec.deadline && task->slot == nullptr &&
        queue_.Remove(task, task->spec.compile, task->spec.priority)) {
      Finish(task, absl::DeadlineExceededError("the compile's time was up before a worker was free"));
      return Event::kDone;
    }
    if (now - task->ticked >= kTick) {
      task->ticked = now;
      return Event::kTick;
    }
    task->changed.WaitFor(&mu_, std::min(kTick - (now - task->ticked), task->spec.deadline - now));
  }
}

void WorkerPool::Cancel(Task* task) {
  MutexLock lock(&mu_);
  if (task->done) return;
  task->cancelled = true;
  if (queue_.Remove(task, task->spec.compile, task->spec.priority)) {
    Finish(task, absl::CancelledError("nobody waits for the result"));
  } else if (task->slot != nullptr && task->slot->process != nullptr) {
    task->slot->process->Kill();  // the slot's thread sees the end of the stream
  }
}

void WorkerPool::Finish(Task* task, absl::Status status) {
  task->result.status = std::move(status);
  task->done = true;
  task->slot = nullptr;
  task->changed.NotifyAll();
}

// --- the side of a slot ---

void WorkerPool::SlotLoop(Slot* slot) {
  while (!stopping()) {
    if (slot->process == nullptr && !StartProcess(slot)) continue;
    if (Task* task = NextTask(slot)) Attempt(slot, task);
  }
  if (slot->process != nullptr) Bury(slot, /*restart=*/false);
}

bool WorkerPool::StartProcess(Slot* slot) {
  absl::StatusOr<std::unique_ptr<WorkerProcess>> process = WorkerProcess::Start(options_.command, options_.start_limit);
  {
    MutexLock lock(&mu_);
    start_error_ = process.status();
    if (process.ok()) {
      slot->process = *std::move(process);
      slot->jobs = 0;
    }
    up_.NotifyAll();
  }
  if (slot->process != nullptr) {
    log_->debug("worker {} is ready", slot->process->pid());
    return true;
  }
  log_->error("{}", OneLine(std::string_view(process.status().message().data(), process.status().message().size())));
  FailIfHopeless(process.status());
  if (!stopping()) slot->Sleep(-1, kStartBackoffMs);
  return false;
}

WorkerPool::Task* WorkerPool::NextTask(Slot* slot) {
  {
    MutexLock lock(&mu_);
    if (stopping_) return nullptr;
    if (Task* task = queue_.Pop()) {
      const absl::Time now = absl::Now();
      task->result.waited += now - task->since;
      ++task->result.attempts;
      task->since = now;
      task->slot = slot;
      slot->task = task;
      task->changed.NotifyAll();
      return task;
    }
    idle_.push_back(slot);
  }
  const bool died = slot->Sleep(slot->process->fd(), /*timeout_ms=*/-1);
  {
    MutexLock lock(&mu_);
    std::erase(idle_, slot);
  }
  if (died && !stopping()) {
    const pid_t pid = slot->process->pid();
    log_->warn("idle worker {} was {}", pid, Bury(slot, /*restart=*/true));
  }
  return nullptr;
}

void WorkerPool::Attempt(Slot* slot, Task* task) {
  const absl::Time deadline = std::min(absl::Now() + options_.job_limit, task->spec.deadline);
  absl::StatusOr<v1::JobReply> reply = Exchange(*slot->process, task->frame, task->spec.job, deadline);
  if (!reply.ok()) return AfterDeath(slot, task, reply.status());
  {
    MutexLock lock(&mu_);
    task->result.worker = slot->process->pid();
    task->result.busy += absl::Now() - task->since;
    slot->task = nullptr;
    ++slot->jobs;
    const absl::Status status = StatusOf(*reply);
    task->result.reply = *std::move(reply);
    Finish(task, status);
  }
  if (slot->jobs >= options_.jobs_per_worker) Bury(slot, /*restart=*/false);
}

void WorkerPool::AfterDeath(Slot* slot, Task* task, const absl::Status& reason) {
  const pid_t pid = slot->process->pid();
  const bool late = absl::IsDeadlineExceeded(reason);
  bool lost;  // else it was ended on purpose
  {
    MutexLock lock(&mu_);
    lost = !task->cancelled && !stopping_;
  }
  std::string fate = Bury(slot, lost);
  if (late) fate = absl::StrCat("ended after ", absl::FormatDuration(options_.job_limit));
  if (absl::IsDataLoss(reason)) fate = absl::StrCat("ended: ", reason.message());
  if (lost) log_->warn("worker {} was {} in a {} job", pid, fate, KindName(task->spec.job));

  MutexLock lock(&mu_);
  const absl::Time now = absl::Now();
  slot->task = nullptr;
  task->slot = nullptr;
  task->result.worker = pid;
  task->result.busy += now - task->since;
  task->since = now;
  task->always_late &= late;
  absl::StrAppend(&task->deaths, task->deaths.empty() ? "" : ", then ", fate);
  if (task->cancelled) {
    Finish(task, absl::CancelledError("nobody waits for the result"));
  } else if (stopping_) {
    Finish(task, absl::UnavailableError("the server is stopping"));
  } else if (now >= task->spec.deadline) {
    Finish(task, absl::DeadlineExceededError("the compile's time is up"));
  } else if (task->result.attempts < kMaxAttempts) {
    queue_.PushFront(task, task->spec.compile, task->spec.priority);
    WakeOneIdle();
  } else {
    const absl::StatusCode code = task->always_late ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kInternal;
    Finish(task, CrashedError(code, absl::StrCat("the ", KindName(task->spec.job), " job cost ", kMaxAttempts,
                                                 " workers: ", task->deaths)));
  }
}

std::string WorkerPool::Bury(Slot* slot, bool restart) {
  std::unique_ptr<WorkerProcess> process;
  {
    MutexLock lock(&mu_);
    process = std::move(slot->process);
    if (restart) ++restarts_;
    // What woke this slot may have been a job that it cannot take now.
    if (!queue_.empty()) WakeOneIdle();
  }
  return process->Reap();
}

void WorkerPool::FailIfHopeless(const absl::Status& reason) {
  MutexLock lock(&mu_);
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (slot->process != nullptr) return;
  }
  while (Task* task = queue_.Pop()) Finish(task, reason);
}

void WorkerPool::WakeOneIdle() {
  if (idle_.empty()) return;
  idle_.back()->Wake();
  idle_.pop_back();
}

bool WorkerPool::stopping() const {
  MutexLock lock(&mu_);
  return stopping_;
}

// --- what is told of it ---

std::vector<v1::WorkerStatus> WorkerPool::Workers() const {
  std::vector<v1::WorkerStatus> out;
  MutexLock lock(&mu_);
  for (const std::unique_ptr<Slot>& slot : slots_) {
    v1::WorkerStatus& status = out.emplace_back();
    status.set_state(slot->process == nullptr ? "starting" : slot->task == nullptr ? "idle" : "busy");
    if (slot->process == nullptr) continue;
    status.set_pid(slot->process->pid());
    status.set_jobs_done(slot->jobs);
    if (slot->task == nullptr) continue;
    status.set_job(KindName(slot->task->spec.job));
    status.set_job_seconds(absl::ToDoubleSeconds(absl::Now() - slot->task->since));
  }
  return out;
}

size_t WorkerPool::queued() const {
  MutexLock lock(&mu_);
  return queue_.size();
}

uint64_t WorkerPool::restarts() const {
  MutexLock lock(&mu_);
  return restarts_;
}

}  // namespace kiln
