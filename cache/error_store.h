// A store in trouble, on demand. For tests of what stands above it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cache/store.h"

namespace kiln {

// What happens before and after a call of Store's function `op` ("GetBlob", …) reaches the store below. Thread-safe if
// the store is used by several threads.
struct Faults {
  // Not ok: the call fails so, and the store below sees nothing of it. May block, to delay a call.
  std::function<absl::Status(std::string_view op)> fail = nullptr;
  // Changes the bytes of a blob on their way up.
  std::function<void(std::string& bytes)> corrupt = nullptr;
};

std::unique_ptr<Store> NewErrorStore(std::unique_ptr<Store> inner, Faults faults);

}  // namespace kiln
