// What is turned away before it costs anything: bounds of a request, and of how much is compiled at once.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cache/mutex.h"
#include "proto/compile.pb.h"
#include "proto/config.pb.h"

namespace kiln {

// ResourceExhausted names the field, its size and the bound; InvalidArgument names a malformed field (a list within a
// list). Linear in the request. Whether indices and types make sense is the importer's to say.
absl::Status CheckBounds(const v1::CompileRequest& request, const v1::Config::Limits& limits);

// Counts what is in progress, up to a bound. Thread-safe.
class Gate {
 public:
  // `what` names the bound in refusals.
  Gate(const char* what, uint32_t bound) : what_(what), bound_(bound) {}

  class Ticket {
   public:
    Ticket(Ticket&& other) noexcept : owner_(other.owner_), amount_(other.amount_) { other.owner_ = nullptr; }
    Ticket& operator=(Ticket&&) = delete;
    ~Ticket() {
      if (owner_ != nullptr) owner_->Leave(amount_);
    }

   private:
    friend class Gate;
    Ticket(Gate* owner, uint64_t amount) : owner_(owner), amount_(amount) {}
    Gate* owner_;
    uint64_t amount_;
  };

  // RefusedError(kResourceExhausted) naming the bound where `amount` more would pass it.
  absl::StatusOr<Ticket> Enter(uint64_t amount = 1);

  uint64_t inside() const;

 private:
  void Leave(uint64_t amount);

  const char* const what_;
  const uint64_t bound_;
  mutable Mutex mu_;
  uint64_t inside_ ABSL_GUARDED_BY(mu_) = 0;
};

// The memory that requests take once parsed: of all in flight `bytes`, of one a quarter. Thread-safe.
struct RequestMemory {
  explicit RequestMemory(uint64_t bytes) : gate("bytes of requests in flight", bytes), one_request(bytes / 4) {}

  Gate gate;
  const uint64_t one_request;
};

}  // namespace kiln
