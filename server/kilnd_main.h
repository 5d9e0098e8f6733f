// main() of kilnd, given a compiler.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "proto/admin.pb.h"
#include "server/job_functions.h"

namespace kiln {

struct Compiler {
  JobFunctions jobs;                 // run in worker processes only
  std::vector<std::string> targets;  // what it makes code for
  // AssembleJob.archs for a target; none where its objects are not assembled.
  std::function<std::vector<std::string>(const std::string& target)> assemble_for;
  std::function<std::vector<v1::OpInfo>()> ops;  // what `kilnctl ops` shows
};

// The exit status: 0 after a drain, 1 where it cannot start, 2 for a bad command line. When it serves it prints its
// addresses on stdout, one a line.
int KilndMain(int argc, char** argv, const Compiler& compiler);

}  // namespace kiln
