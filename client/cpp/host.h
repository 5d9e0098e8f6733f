// What this machine can run.
#pragma once

#include <string_view>

namespace kiln {

// The best CPU target of this machine: "x86-64-v4", "x86-64-v3" or "x86-64-v2"; empty if it is none of them.
std::string_view HostTarget();

// Whether a machine whose best target is `host` runs code for `target`; a GPU's target ("sm_90") runs its own alone.
bool TargetRuns(std::string_view target, std::string_view host);

}  // namespace kiln
