// A store in memory, gone with the process: for tests, and for a daemon that is told to keep nothing.
#pragma once

#include <memory>

#include "cache/store.h"
#include "cache/store_options.h"

namespace kiln {

std::unique_ptr<Store> NewMemoryStore(const StoreOptions& options);

}  // namespace kiln
