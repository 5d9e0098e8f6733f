// Whether what a client says of a call fits the code that it goes with. Asked by the server before it keeps a CallSpec,
// and by the client before it uses one.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/artifact.pb.h"
#include "proto/call_spec.pb.h"

namespace kiln {

inline constexpr uint32_t kVariantVersion = 1;

// What the artifact's functions take and give.
struct CallShape {
  uint32_t inputs = 0;   // of the forward, or of the inference function
  uint32_t outputs = 0;  // of the same, without what is saved
  uint32_t saved = 0;    // tensors
  uint32_t saved_syms = 0;
  bool training = false;  // there is a backward
  uint32_t backward_inputs = 0;
};
CallShape ShapeOf(const v1::Artifact& artifact);

// Counts, positions, kinds and names. InvalidArgument names the field, what it is and what would fit.
absl::Status CheckCallSpec(const v1::CallSpec& spec, const CallShape& shape);

// Tables and operands of a variant's predicates. InvalidArgument names the entry.
absl::Status CheckPredicates(const v1::Variant& variant);

// Whether the predicates hold of the SymInt inputs' values. False too where there are fewer values than symbols, one is
// out of its range, or an expression overflows. InvalidArgument as CheckPredicates.
absl::StatusOr<bool> PredicatesHold(const v1::Variant& variant, std::span<const int64_t> values);

}  // namespace kiln
