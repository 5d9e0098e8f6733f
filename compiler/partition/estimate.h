// How large tensors are, for choosing between them. Never a fact: sizes that are variables are guessed.
#pragma once

#include "absl/container/flat_hash_map.h"
#include "compiler/graph/graph.h"

namespace kiln {

// A size variable counts as the middle of its size class within its range, one without a class as a fixed number. The
// same for the same graph.
class SizeEstimate {
 public:
  explicit SizeEstimate(const Graph& graph) : graph_(graph) {}
  // REQUIRES: `value` has a type. Both at most 2^40.
  int64_t Elements(ValueId value);
  int64_t Bytes(ValueId value);

 private:
  int64_t Count(const TensorType& type) const;

  const Graph& graph_;
  absl::flat_hash_map<const TensorType*, int64_t> elements_;  // types are interned
};

}  // namespace kiln
