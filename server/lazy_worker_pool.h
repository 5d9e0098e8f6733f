// A worker pool that only some servers ever need.
#pragma once

#include <memory>
#include <vector>

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
    }
    return pool_.get();
  }

  // None before it has started.
  std::vector<v1::WorkerStatus> Workers() const {
    MutexLock lock(&mu_);
    return pool_ == nullptr ? std::vector<v1::WorkerStatus>() : pool_->Workers();
  }

 private:
  const WorkerPoolOptions options_;
  const Logger log_;
  mutable Mutex mu_;
  std::unique_ptr<WorkerPool> pool_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln
