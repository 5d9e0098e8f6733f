// Any text: the parser must refuse it or give a kernel that prints to a fixed point.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "compiler/loop/simplify.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kiln::loop;
  absl::StatusOr<Kernel> kernel = ParseKernel({reinterpret_cast<const char*>(data), size});
  if (!kernel.ok()) return 0;
  const std::string text = ToText(*kernel);
  absl::StatusOr<Kernel> again = ParseKernel(text);
  if (!again.ok() || ToText(*again) != text) std::abort();
  if (!Verify(*kernel).ok()) return 0;
  Simplify(*kernel);
  Normalize(*kernel);
  if (!Verify(*kernel).ok()) std::abort();
  return 0;
}
