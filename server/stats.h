// Exact counts of what was served, in all and by job. Since the daemon's start; nothing is kept on disk.
//
// Every Lookup and every Compile that reaches the cache is one lookup, and is in the end either a hit (answered from
// the store) or a miss. A Compile that misses is a compile (it led), joined (it waited for another's) or was answered
// by a negative entry. Failures are Compiles that ended with `failed`, also those that joined one or met a negative
// entry.
#pragma once

#include <string>

#include "absl/container/btree_map.h"
#include "cache/mutex.h"
#include "proto/admin.pb.h"

namespace kiln {

// Adds field by field.
void AddTo(v1::Counters* sum, const v1::Counters& delta);

// Thread-safe.
class Stats {
 public:
  static constexpr size_t kMaxJobs = 1000;  // further jobs are counted under kOthers
  static constexpr char kOthers[] = "(others)";
  static constexpr char kUnnamed[] = "(unnamed)";

  // Adds `delta` to the totals and to those of `job` (as the client calls itself).
  void Add(const std::string& job, const v1::Counters& delta);

  // Adds to the totals alone: what no job can be named for.
  void AddUnattributed(const v1::Counters& delta);

  // Sets `totals` and `jobs`, sorted by name.
  void Fill(v1::StatsReply* reply) const;

 private:
  mutable Mutex mu_;
  v1::Counters totals_ ABSL_GUARDED_BY(mu_);
  absl::btree_map<std::string, v1::Counters> jobs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln
