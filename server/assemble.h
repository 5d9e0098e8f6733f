// NVIDIA's assembler, ptxas, as a worker's job.
#pragma once

#include "absl/status/statusor.h"
#include "proto/jobs.pb.h"

namespace kiln {

// The cubin of the first of job.archs that this ptxas knows; an empty one if it knows none. In files of fixed names in
// $TMPDIR, which are gone afterwards; no path gets into the cubin. Internal, with the beginning of what ptxas says, if
// it refuses the PTX; Unavailable if it cannot be run. Test: assemble_test.cc.
absl::StatusOr<v1::AssembleResult> Assemble(const v1::AssembleJob& job);

}  // namespace kiln
