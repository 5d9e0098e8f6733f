// Objects to one shared object, by LLD inside this process.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace kiln {

// An ELF shared object that exports `symbols` and nothing else, needs no library, and has no undefined symbol. The same
// objects in the same order give the same bytes. Objects are checked to be x86-64 relocatables before LLD sees them.
//
// InvalidArgument: an object or symbol is not what it should be, or LLD refuses them (its message is included).
// ResourceExhausted: no place for the temporary file. Internal: LLD's state is lost (see LinkerIsUsable). Calls from
// several threads wait for one another: LLD's state is the process's.
absl::StatusOr<std::string> LinkShared(std::span<const std::string> objects, std::span<const std::string> symbols);

// Whether LinkShared may still be called in this process. False after LLD has died in mid-link: the worker answers and
// exits.
bool LinkerIsUsable();

}  // namespace kiln
