// The sizes at which each computation has been compiled, and what has been made of them: so that later sizes need no
// compile.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cache/context.h"
#include "cache/mutex.h"
#include "proto/compile.pb.h"
#include "server/action_cache.h"
#include "server/skeleton.h"

namespace kiln {

// Of one skeleton, in one namespace. Further ones are not kept.
inline constexpr size_t kMaxInstances = 16;
inline constexpr size_t kMaxGeneralizations = 8;

// Like variants they rest on clients' words, and stay in the namespace of the client. Requests are canonical, of level
// TORCH; those that have no skeleton (skeleton.h) are ignored. Thread-safe.
class Generalizations {
 public:
  // `cache` outlives this.
  Generalizations(ActionCache* cache, std::string build) : cache_(cache), build_(std::move(build)) {}

  // A request that has a variant of its own from now on.
  void Remember(const RequestContext& ctx, const v1::CompileRequest& request);

  // What this request, which has none, is an instance of: the one that is stored (of several, the one with fewest
  // symbols); else one made of it and the remembered ones, which is then stored. Never replaced, so every later process
  // gets the same.
  std::optional<v1::Generalization> Find(const RequestContext& ctx, const v1::CompileRequest& request);

 private:
  std::optional<v1::Generalization> Stored(const RequestContext& ctx, const Skeleton& skeleton,
                                           const std::vector<v1::SkeletonMember>& members);

  ActionCache* const cache_;
  const std::string build_;
  Mutex adding_;  // from reading how many there are until one more is stored
};

}  // namespace kiln
