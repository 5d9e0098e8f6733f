// Places that other tensors' elements name: NumPy's advanced indexing by integers.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "compiler/ops/op_def.h"

namespace kiln {

// Element types that an index tensor may have; a mask is no index.
inline bool IsIndexType(DType dtype) { return dtype == DType::kInt64 || dtype == DType::kInt32; }

// self[indices], self argument 0 and indices (Tensor?[]) argument 1: where the broadcast dims of the indices go in the
// result, and which dims of self they replace.
struct IndexPlan {
  std::vector<std::optional<size_t>> item;  // one a dim of self: which index tensor picks along it
  size_t position = 0;                      // of the first broadcast dim in the result
  size_t broadcast_rank = 0;
};
IndexPlan PlanIndex(const Call& call);

// Whether all indices are integers.
bool SupportsIndex(const Call& call);

// Sizes of self[indices], for indices that are integers.
absl::StatusOr<std::vector<Sym>> IndexedShape(const Call& call);

// Where in self the element e.index() of self[indices], a tensor of `sizes`, stands; checked, negative ones wrapped.
std::vector<Sym> IndexedPlace(Element& e, const IndexPlan& plan, std::span<const Sym> sizes);

}  // namespace kiln
