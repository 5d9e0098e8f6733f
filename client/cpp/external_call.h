// An external call as a plan states it, checked against its schema.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "client/cpp/program.h"
#include "proto/artifact.pb.h"

namespace kiln {

// Turns each argument into the kind that the schema asks for: an int where it wants a float becomes one, one int where
// it wants a list becomes a list. `slot` gives the slot of a size expression, or why there is none. Value ids are not
// looked at. InvalidArgument names the argument.
absl::StatusOr<ExternalCall> BuildExternalCall(const v1::External& external,
                                               const std::function<absl::StatusOr<uint32_t>(uint32_t expr)>& slot);

}  // namespace kiln
