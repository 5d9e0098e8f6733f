// kilnd --local: many processes may ask for the user's own daemon at one moment, and get one.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/local_paths.h"

namespace kiln {

// Whether somebody accepts connections there.
bool IsLive(const std::string& socket_path);

// Returns once a daemon listens on `socket_path`: one that was there, or one that is started detached: `program`
// run with `argv`, which must serve and print its address, a line, on stdout. Its stderr goes to `log_path`.
// Unavailable, with the end of that log, where it does not come up within `limit`.
absl::Status EnsureDaemon(const std::string& socket_path, const std::string& log_path, const std::string& program,
                          const std::vector<std::string>& argv, const LocalEnv& env,
                          absl::Duration limit = absl::Seconds(30));

}  // namespace kiln
