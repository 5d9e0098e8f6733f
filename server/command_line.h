// kilnd's command line: a configuration file, and flags that override it.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <variant>

#include "proto/config.pb.h"

namespace kiln {

struct CommandLine {
  enum class Mode {
    kServe,         // as the configuration says
    kLocal,         // make sure that the user's own daemon runs, print its address, leave
    kLocalServe,    // be that daemon, in the foreground
    kLocalAddress,  // print its address, start nothing
    kPrintBuild,
  };
  Mode mode = Mode::kServe;
  v1::Config config;           // of file and flags, not yet completed
  std::string debug_crash_at;  // exit at this step of a publication; for tests
};

// The parsed line, or the exit status to leave with at once (0 after --help and --version, 2 after an error); what
// there is to say is written to `out` or `err`. The worker's own command line is not seen here.
std::variant<CommandLine, int> ParseCommandLine(int argc, const char* const* argv, std::ostream& out,
                                                std::ostream& err);

}  // namespace kiln
