// Trusts no byte: contents are compared with their digest on the way down and on the way up.
#pragma once

#include <memory>

#include "cache/store.h"

namespace kiln {

// Thread-safe. A publication whose blob is not what its digest says is InvalidArgument. A stored blob that is not, or
// that the layers below give as DataLoss, is removed, with the records that name it, counted as corrupt, and NotFound.
// No DataLoss leaves this layer.
std::unique_ptr<Store> NewVerifyingStore(std::unique_ptr<Store> inner);

}  // namespace kiln
