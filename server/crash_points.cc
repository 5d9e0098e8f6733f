#include "server/crash_points.h"

#include <unistd.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kiln {

absl::StatusOr<PublishHook> CrashPoint(const std::string& name) {
  static const auto* const kSteps = new std::map<std::string, PublishStep>{
      {"planned", PublishStep::kPlanned},
      {"blobs_staged", PublishStep::kBlobsStaged},
      {"records_staged", PublishStep::kRecordsStaged},
      {"committed", PublishStep::kCommitted},
      {"acknowledged", PublishStep::kAcknowledged},
  };
  if (name.empty()) return PublishHook(nullptr);
  const auto step = kSteps->find(name);
  if (step == kSteps->end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--debug-crash-at: '", name, "' is none of ",
                     absl::StrJoin(*kSteps, ", ", [](std::string* out, const auto& s) { out->append(s.first); })));
  }
  return PublishHook([at = step->second](PublishStep now) {
    if (now == at) _exit(kCrashPointExitStatus);
    return absl::OkStatus();
  });
}

}  // namespace kiln
