// The CUDA driver of this machine: found by dlopen, so nothing of CUDA is needed to build.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kiln {

// The driver API's opaque handles, and its int enums.
struct CudaContextOpaque;
using CudaContext = CudaContextOpaque*;
struct CudaModuleOpaque;
using CudaModule = CudaModuleOpaque*;
struct CudaFunctionOpaque;
using CudaFunction = CudaFunctionOpaque*;
struct CudaStreamOpaque;
using CudaStream = CudaStreamOpaque*;
using CudaResult = int;  // 0: success
using CudaDevice = int;

// X(field, symbol, type). The versions of the symbols are those that cuda.h's macros choose (CUDA Driver API
// reference).
#define KILN_CUDA_DRIVER(X)                                                                                            \
  X(init, "cuInit", CudaResult(unsigned))                                                                              \
  X(error_name, "cuGetErrorName", CudaResult(CudaResult, const char**))                                                \
  X(error_string, "cuGetErrorString", CudaResult(CudaResult, const char**))                                            \
  X(device_get, "cuDeviceGet", CudaResult(CudaDevice*, int))                                                           \
  X(device_attribute, "cuDeviceGetAttribute", CudaResult(int*, int, CudaDevice))                                       \
  X(retain_context, "cuDevicePrimaryCtxRetain", CudaResult(CudaContext*, CudaDevice))                                  \
  X(release_context, "cuDevicePrimaryCtxRelease_v2", CudaResult(CudaDevice))                                           \
  X(current_context, "cuCtxGetCurrent", CudaResult(CudaContext*))                                                      \
  X(push_context, "cuCtxPushCurrent_v2", CudaResult(CudaContext))                                                      \
  X(pop_context, "cuCtxPopCurrent_v2", CudaResult(CudaContext*))                                                       \
  X(load_module, "cuModuleLoadDataEx", CudaResult(CudaModule*, const void*, unsigned, int*, void**))                   \
  X(unload_module, "cuModuleUnload", CudaResult(CudaModule))                                                           \
  X(get_function, "cuModuleGetFunction", CudaResult(CudaFunction*, CudaModule, const char*))                           \
  X(launch, "cuLaunchKernel",                                                                                          \
    CudaResult(CudaFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CudaStream, void**, \
               void**))

// Immutable once loaded; every member may be called from any thread.
struct CudaDriver {
#define KILN_CUDA_FIELD(field, symbol, ...) std::add_pointer_t<__VA_ARGS__> field = nullptr;
  KILN_CUDA_DRIVER(KILN_CUDA_FIELD)
#undef KILN_CUDA_FIELD

  // The process's own, loaded by the first call. Unavailable: there is no driver here, or no GPU that it knows.
  static absl::StatusOr<const CudaDriver*> Get();

  // "CONTEXT: CUDA_ERROR_…: the driver's words" as Internal.
  absl::Status Error(const std::string& context, CudaResult result) const;
};

// Makes a context the calling thread's current one for a scope, where it is not.
class CudaCurrent {
 public:
  CudaCurrent(const CudaDriver& driver, CudaContext context);
  ~CudaCurrent();
  CudaCurrent(const CudaCurrent&) = delete;
  CudaCurrent& operator=(const CudaCurrent&) = delete;

 private:
  const CudaDriver& driver_;
  bool pushed_ = false;
};

}  // namespace kiln
