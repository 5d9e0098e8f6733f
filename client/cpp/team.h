// Kernels run one after the other by the host's threads, which are entered once for all of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "client/cpp/torch_api.h"
#include "compiler/artifact/abi.h"

namespace kiln {

struct KernelCall {
  KernelFn* kernel;
  void* const* buffers;
  const int64_t* sizes;
  int64_t extent;     // of the parallel axis
  int64_t grain;      // least iterations that a thread should get
  int64_t error = 0;  // see KernelFn
  // Of the team that runs it:
  uint32_t ranges = 0;    // that [0, extent) is cut into, one a thread
  uint32_t finished = 0;  // of these
};

// Scratch of RunCalls, to be used again.
using TeamClaims = std::vector<uint64_t>;

// Runs the calls in order, each when the one before is done; one whose extent is 0 does nothing, and what comes after
// one that sets its error word is not run. Range r of every call goes to the same thread as a rule, so that it finds in
// its cache what it left there. A thread that is not there (the pool gives fewer than it says) is waited for by nobody:
// the others take its ranges. Errors are the pool's own.
absl::Status RunCalls(const TorchApi& api, std::span<KernelCall> calls, TeamClaims& claims);

}  // namespace kiln
