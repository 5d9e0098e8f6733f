// Errors that name a node of the request's graph.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace kiln {

// `status` with the node attached, unless it names one already. `node`: an origin (Node::origin), an index into the request's nodes.
absl::Status AtNode(absl::Status status, int64_t node);
int64_t NodeOf(const absl::Status& status);  // -1: none

}  // namespace kiln
