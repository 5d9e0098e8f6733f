// The cache's entries, as kilnctl shows and removes them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cache/context.h"
#include "cache/key.h"
#include "cache/store.h"
#include "proto/admin.pb.h"

namespace kiln {

inline constexpr uint32_t kMaxListedEntries = 1000;

// Calls `visit` for every record of the table that the context may see, page by page, until it returns false.
absl::Status ForEachRecord(Store& store, const RequestContext& ctx, Table table,
                           const std::function<bool(const ListedRecord&)>& visit);

// InvalidArgument unless it is at least 4 lower-case hex digits.
absl::Status CheckKeyPrefix(const std::string& hex);

// InvalidArgument that names two of the keys that start so.
absl::Status SeveralKeys(const std::string& hex, const Key& one, const Key& other);

// What one line of `cache ls` says. Reads the provenance; without it, the job is empty.
v1::EntrySummary Summarize(Store& store, const RequestContext& ctx, const ListedRecord& listed);

// Up to `limit` entries (0 or more than kMaxListedEntries: that many), actions or negative ones.
absl::StatusOr<v1::ListEntriesReply> ListEntries(Store& store, const RequestContext& ctx, bool negative,
                                                 uint32_t limit);

// The one entry, action or negative, whose key starts with `hex`. InvalidArgument: fewer than 4 hex digits, or several
// such keys; NotFound: none.
absl::StatusOr<ListedRecord> FindEntry(Store& store, const RequestContext& ctx, const std::string& hex);

absl::StatusOr<v1::InspectEntryReply> InspectEntry(Store& store, const RequestContext& ctx, const std::string& hex);

// How many records went. A prefix names one entry; `all` takes kernels and CallSpecs too.
absl::StatusOr<uint64_t> RemoveEntries(Store& store, const RequestContext& ctx, const v1::RemoveEntriesRequest& which);

}  // namespace kiln
