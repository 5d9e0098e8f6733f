// A mutex and a condition variable that both clang's thread-safety analysis and ThreadSanitizer understand.
//
// absl::Mutex is not used: its lock lives in a library that the distribution builds without instrumentation, so
// ThreadSanitizer would see no ordering between two critical sections and report every guarded field as a race.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace kiln {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mu_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mu_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mu_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(mu) { mu_->Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mu_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mu_;
};

// Waits may wake spuriously: callers loop on their condition.
class CondVar {
 public:
  // Waits for a notification, at most for `timeout` of real time (capped at an hour; a negative one is zero).
  // `wait_for` is inline code of ours, `wait` is not: ThreadSanitizer must see the unlock and the lock.
  void WaitFor(Mutex* mu, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    std::unique_lock<std::mutex> lock(mu->mu_, std::adopt_lock);
    const absl::Duration bounded = std::clamp(timeout, absl::ZeroDuration(), absl::Hours(1));
    cv_.wait_until(lock, std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(bounded));
    lock.release();
  }
  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace kiln
