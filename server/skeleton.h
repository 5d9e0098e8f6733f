// Requests of level TORCH apart from their sizes: what those of one computation at many sizes share, and what they
// differ in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cache/key.h"
#include "proto/compile.pb.h"

namespace kiln {

// A request taken apart: requests with the same key differ in `values` alone (proto/generalization.proto), which have
// the same meaning in each.
struct Skeleton {
  struct Input {
    uint32_t rank = 0;
    bool fixed = false;  // a parameter or buffer, or it shares a storage: other sizes make another computation
  };
  Key key;
  std::vector<Input> inputs;
  std::vector<int64_t> values;
};

inline constexpr size_t kMaxSkeletonValues = 1 << 16;

// `canonical` is CanonicalRequest's, of level TORCH. Empty where it has symbols, has more values than the bound, or is
// not well formed.
std::optional<Skeleton> SkeletonOf(const v1::CompileRequest& canonical, const std::string& build);

}  // namespace kiln
