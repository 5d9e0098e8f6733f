// Serving, draining, leaving: what the daemon may still begin, and when it may go.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/clock.h"
#include "cache/mutex.h"

namespace kiln {

// Thread-safe.
class Lifecycle {
 public:
  explicit Lifecycle(Clock* clock) : clock_(clock), last_active_(clock->Now()) {}  // must outlive this

  // Something in progress; ends with the object.
  class Scope {
   public:
    Scope(Scope&& other) noexcept : owner_(other.owner_), count_(other.count_) { other.owner_ = nullptr; }
    Scope& operator=(Scope&&) = delete;
    ~Scope() {
      if (owner_ != nullptr) owner_->Leave(count_);
    }

   private:
    friend class Lifecycle;
    Scope(Lifecycle* owner, int64_t* count) : owner_(owner), count_(count) {}
    Lifecycle* owner_;
    int64_t* count_;
  };

  Scope EnterCall();                     // any request: the daemon is not idle
  absl::StatusOr<Scope> EnterCompile();  // RefusedError(kUnavailable) once draining

  // No compile is begun after this. The first call calls `on_drain`, on its thread; where it has come already,
  // SetOnDrain does.
  void Drain();
  void SetOnDrain(std::function<void()> on_drain);

  // Draining, and WaitForExit returns.
  void RequestExit();

  bool draining() const;
  std::string_view StateName() const { return draining() ? "draining" : "serving"; }
  int64_t compiles_in_flight() const;

  // False if there are still compiles in flight at `deadline`, or as soon as `give_up` says so (asked about ten times a
  // second).
  bool WaitForCompiles(absl::Time deadline, const std::function<bool()>& give_up = nullptr);

  // False if there are still requests of any kind at `deadline`.
  bool WaitForCalls(absl::Time deadline);

  // Returns after RequestExit, or when there has been no request for `idle_exit` (zero: never).
  void WaitForExit(absl::Duration idle_exit);

 private:
  void Leave(int64_t* count);

  Clock* const clock_;
  mutable Mutex mu_;
  CondVar changed_;
  std::function<void()> on_drain_ ABSL_GUARDED_BY(mu_);
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  bool exit_ ABSL_GUARDED_BY(mu_) = false;
  int64_t calls_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t compiles_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Time last_active_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln
