// Blobs read lately, in memory in front of a slower store.
#pragma once

#include <cstdint>
#include <memory>

#include "cache/store.h"

namespace kiln {

// Thread-safe. Keeps up to `max_bytes` of blob contents, dropping what was read longest ago; a blob larger than an
// eighth of it is not kept. A blob is named by its content, so a copy can't be stale; it may be given after the store
// below has dropped it, while FindMissing tells of that store only. Records are never kept: they change, and must count
// as used.
std::unique_ptr<Store> NewReadThroughStore(std::unique_ptr<Store> inner, uint64_t max_bytes);

}  // namespace kiln
