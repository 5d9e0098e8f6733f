// Finds the entry to explain, and those nearest to it.
#pragma once

#include "absl/status/statusor.h"
#include "cache/context.h"
#include "cache/store.h"
#include "proto/admin.pb.h"

namespace kiln {

inline constexpr size_t kMaxCompared = 1000;  // entries, the newest first
inline constexpr int kMaxNearest = 3;

// The entry is the newest with such a key (the variants of a look-up share one), and is compared with those of its own
// kind that the context may see. InvalidArgument: neither a key nor a job is named, fewer than 4 hex digits, or several
// keys start with them; NotFound: there is none, or none among the kMaxCompared newest that the job caused.
absl::StatusOr<v1::ExplainReply> ExplainEntry(Store& store, const RequestContext& ctx, const v1::ExplainRequest& which);

}  // namespace kiln
