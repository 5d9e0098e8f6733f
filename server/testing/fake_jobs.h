// The three job functions without a compiler, for tests. What they do is written in the request: each op name of a
// Plan's graph, and each kernel's text, may be an instruction
//
//   fake.sleep_ms:N       takes its time              fake.crash            aborts
//   fake.hang             never returns               fake.crash_once:FILE  aborts unless FILE exists, which it makes
//   fake.stop             stops itself (SIGSTOP)      fake.garbage          writes bytes that are no frame, and exits
//   fake.alloc_mib:N      allocates and touches       fake.oversized        announces a frame of 4 GiB, and waits
//   fake.invalid:N        InvalidArgument at node N   fake.throw            throws std::runtime_error
//   fake.internal         Internal                    fake.count:FILE       appends a byte to FILE
//   fake.wait_for:FILE    until FILE exists           fake.link_crash       (kernel text) the Link aborts
//   fake.run:PROGRAM      its output is an Internal error, if there is any
//   fake.socket           PermissionDenied where the sandbox allows none
//
// An Assemble job obeys what follows "assemble_" in its kernel's text, and knows all architectures but sm_120.
//
// Op names that start with "kernel." make a distinct kernel each, whose text is what follows. Everything else is
// ignored. A kernel's text may carry "#anything" after the instruction, to make it distinct.
#pragma once

#include "server/job_functions.h"

namespace kiln {

JobFunctions FakeJobs();

}  // namespace kiln
