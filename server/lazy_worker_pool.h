// A worker pool that only some servers ever need.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "cache/mutex.h"
#include "server/worker_pool.h"

namespace kiln {

// Thread-safe.
class LazyWorkerPool {
 public:
  LazyWorkerPool(WorkerPoolOptions options, Logger log) : options_(std::move(options)), log_(std::move(log)) {}

  // Starts it where nobody has. As WorkerPool::Start; after a failure the next call tries again.
  absl::StatusOr<WorkerPool*> Get() {
    MutexLock lock(&mu_);
    if (pool_ == nullptr) {
      absl::StatusOr<std::unique_ptr<WorkerPool>> started = WorkerPool::Start(options_, log_);
      if (!started.ok()) return started.status();
      pool_ = *std::move(started);
      started_ = pool_.get();
    }
    return pool_.get();
  }

  // Null before it has started; does not wait for a start that is under way.
  const WorkerPool* started() const { return started_; }

 private:
  const WorkerPoolOptions options_;
  const Logger log_;
  Mutex mu_;  // held while it starts
  std::unique_ptr<WorkerPool> pool_ ABSL_GUARDED_BY(mu_);
  std::atomic<const WorkerPool*> started_ = nullptr;
};

}  // namespace kiln
