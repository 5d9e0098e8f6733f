// The time, as a parameter. Nothing in cache/ asks the system for it in any other way.
#pragma once

#include "absl/time/time.h"
#include "cache/mutex.h"

namespace kiln {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  virtual absl::Time Now() = 0;

  // Waits until `cv` is notified or this clock reaches `deadline`; may return early. `mu` is held on entry and exit.
  virtual void Wait(Mutex* mu, CondVar* cv, absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) = 0;

  // The system's clock; never destroyed.
  static Clock* Real();
};

}  // namespace kiln
