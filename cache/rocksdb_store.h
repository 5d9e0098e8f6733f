// A store on disk.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cache/store.h"
#include "cache/store_options.h"

namespace rocksdb {
class Env;
}

namespace kiln {

// What was found at the opening.
struct OpenReport {
  bool created = false;   // there was nothing
  bool salvaged = false;  // there was damage: what could still be read has been copied to new files
  bool lost = false;      // nothing could be read: a new, empty store
};

// Opens the store in `dir`, makes it, or makes the best of a damaged one. The directory is made if need be, for this
// user only, and belongs to the store.
//
// FailedPrecondition: it was written in a layout that this program does not know; it is left as it is. Unavailable:
// another process has it open, or the disk is in trouble. ResourceExhausted: the disk is full.
//
// `env` replaces the file system, for tests; null for the real one.
absl::StatusOr<std::unique_ptr<Store>> OpenRocksDbStore(const std::string& dir, const StoreOptions& options,
                                                        OpenReport* report = nullptr, rocksdb::Env* env = nullptr);

}  // namespace kiln
