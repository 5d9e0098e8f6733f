// Who asks, for how long, and on whose behalf: what travels with every call into cache/.
#pragma once

#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace kiln {

// A value; cheap to copy. No field of it enters a key, a record or a blob.
struct RequestContext {
  std::string ns = "default";                    // the principal's namespace; decides which private records are visible
  bool admin = false;                            // sees and removes the records of every namespace
  std::string request_id;                        // for messages only
  std::string job_id;                            // the holder of leases; empty: takes none
  absl::Time deadline = absl::InfiniteFuture();  // calls begun after it fail with DeadlineExceeded
  std::stop_token stop;  // requested: waits end with Cancelled; a read or write begun is finished
};

// Ok while the context has not ended; else Cancelled or DeadlineExceeded.
absl::Status ContextStatus(const RequestContext& ctx, absl::Time now);

}  // namespace kiln
