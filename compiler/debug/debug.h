// What the environment asks of the compiler beside its result. Nothing here changes an artifact.
//
//   KILN_VERIFY=1             after every pass: verify, print, parse, compare, and interpret where that is cheap
//   KILN_TIME=1               report the time of each pass
//   KILN_DUMP=fuse,lower@kernel_3   print after these passes ("all": every one), of these subjects only
//   KILN_DUMP_DIR=PATH        dumps become files there, not text on stderr
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln {

struct DumpRule {
  std::string pass;     // or "all"
  std::string subject;  // what the pass works on ("forward", "kernel_3"); empty: anything
};

struct DebugOptions {
  bool verify = false;
  bool time = false;
  std::vector<DumpRule> dump;
  std::string dump_dir;

  bool ShouldDump(std::string_view pass, std::string_view subject) const;
};

// The compiler's only look at the environment.
DebugOptions DebugFromEnvironment();

// The list of rules in KILN_DUMP's syntax.
std::vector<DumpRule> ParseDumpRules(std::string_view text);

}  // namespace kiln
