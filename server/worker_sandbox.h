// Limits that a worker process puts on itself before it reads its first job.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace kiln {

// For the rest of this process's life:
//   address space of at most `memory_bytes` (not under sanitizers, which reserve terabytes), no core dumps, a stack of
//   64 MiB, few descriptors; ended by the kernel when the thread that started it ends; a session of its own, so that a
//   terminal's ^C does not reach it; no privileges gained by exec; and a syscall filter: no sockets, no exec unless
//   `may_exec`, no tracing, no mounts, no signals to other processes (EPERM). What it executes is under the same rules.
// Unavailable where a limit cannot be set. A kernel without syscall filters is no error.
absl::Status EnterSandbox(uint64_t memory_bytes, bool may_exec = false);

}  // namespace kiln
