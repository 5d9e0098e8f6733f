#include "client/cpp/cuda_driver.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

absl::StatusOr<const CudaDriver*> Load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::UnavailableError(absl::StrCat("the CUDA driver: ", dlerror()));
  auto* driver = new CudaDriver;  // for as long as the process lives
#define KILN_CUDA_LOAD(field, symbol, ...)                            \
  *reinterpret_cast<void**>(&driver->field) = dlsym(library, symbol); \
  if (driver->field == nullptr) return absl::UnavailableError("the CUDA driver has no " symbol);
  KILN_CUDA_DRIVER(KILN_CUDA_LOAD)
#undef KILN_CUDA_LOAD
  if (const CudaResult result = driver->init(0); result != 0) {
    return absl::UnavailableError(std::string(driver->Error("cuInit", result).message()));
  }
  return driver;
}

}  // namespace

absl::StatusOr<const CudaDriver*> CudaDriver::Get() {
  static const auto* const kLoaded = new absl::StatusOr<const CudaDriver*>(Load());
  return *kLoaded;
}

absl::Status CudaDriver::Error(const std::string& context, CudaResult result) const {
  const char *name = nullptr, *text = nullptr;
  error_name(result, &name);
  error_string(result, &text);
  return absl::InternalError(absl::StrCat(context, ": ", name == nullptr ? absl::StrCat("CUDA error ", result) : name,
                                          text == nullptr ? "" : ": ", text == nullptr ? "" : text));
}

CudaCurrent::CudaCurrent(const CudaDriver& driver, CudaContext context) : driver_(driver) {
  CudaContext current = nullptr;
  if (driver_.current_context(&current) == 0 && current == context) return;
  pushed_ = driver_.push_context(context) == 0;
}

CudaCurrent::~CudaCurrent() {
  CudaContext ignored = nullptr;
  if (pushed_) driver_.pop_context(&ignored);
}

}  // namespace kiln
