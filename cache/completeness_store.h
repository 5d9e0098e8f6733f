// A record is found only if a reader can have all that it names.
#pragma once

#include <cstdint>
#include <memory>

#include "cache/store.h"

namespace kiln {

// Thread-safe. GetRecord reads the record's blobs, so that a layer below verifies them (and, in memory, keeps them for
// the reader that follows); a blob that is missing makes the record NotFound, and removes it. If they are more than
// `max_read_bytes` together, they are only looked for.
std::unique_ptr<Store> NewCompletenessStore(std::unique_ptr<Store> inner, uint64_t max_read_bytes);

}  // namespace kiln
