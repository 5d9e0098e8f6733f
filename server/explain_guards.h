// What differs of two requests' guards.
#pragma once

#include "proto/graph.pb.h"
#include "server/explain_differences.h"

namespace kiln {

// `offsets`: both say where in its storage an input begins, as those of Dynamo's graphs do.
void DiffGuards(const v1::GuardSpec& before, const v1::GuardSpec& after, bool offsets, Differences* out);

}  // namespace kiln
