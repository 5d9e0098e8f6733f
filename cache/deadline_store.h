// No call takes for ever: a context without a deadline, or with a distant one, gets a nearer.
#pragma once

#include <memory>

#include "absl/time/time.h"
#include "cache/clock.h"
#include "cache/store.h"

namespace kiln {

// Thread-safe. Calls begin with at most `max` left, and not at all (DeadlineExceeded, Cancelled) when the context has
// ended. Maintain is not limited. `clock` must outlive the store.
std::unique_ptr<Store> NewDeadlineStore(std::unique_ptr<Store> inner, absl::Duration max, Clock* clock);

}  // namespace kiln
