// main() of a worker process: reads jobs on descriptor 3, writes replies there.
#pragma once

#include <cstdint>

#include "server/job_functions.h"

namespace kiln {

inline constexpr int kWorkerFd = 3;
inline constexpr char kWorkerFlag[] = "--worker";
inline constexpr char kWorkerMemoryFlag[] = "--memory-bytes=";
inline constexpr char kWorkerAssemblesFlag[] = "--assembles";

// Whether the command line is a worker's: its first argument is kWorkerFlag.
bool IsWorkerCommand(int argc, const char* const* argv);

// Enters the sandbox, says so by an empty reply, then answers one job after the other until the parent closes its end.
// An exception within a job is an answer (ResourceExhausted for bad_alloc, else Internal). Leaves without running
// destructors: nothing is to be flushed, and a leak checker could not work in the sandbox.
[[noreturn]] void WorkerMain(int argc, const char* const* argv, const JobFunctions& functions);

// The reply to one job; used by the above. Assembling is for workers that may run other programs and do nothing else:
// jobs of the other kind are refused.
v1::JobReply RunJob(const v1::Job& job, const JobFunctions& functions, bool assembles = false);

}  // namespace kiln
