// The C shims of the torch that is loaded in this process: found by dlsym, so no torch header is needed to build.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/graph.pb.h"

namespace kiln {

// Torch's handle is an at::Tensor*. An owned handle is freed by `delete_tensor`.
struct AtenTensorOpaque;
using TensorHandle = AtenTensorOpaque*;
struct StableListOpaque;
using StableList = StableListOpaque*;
struct StableStringOpaque;
using StableString = StableStringOpaque*;
// One slot of a dispatcher stack: an integer, a double's bits, a handle or a list. Zero is None.
using StableIValue = uint64_t;
using ParallelBody = void(int64_t begin, int64_t end, void* context);

// X(field, symbol, type). Functions returning int32_t give 0 on success; the reason is `exception_what`'s.
// Without one of these nothing can run.
#define KILN_TORCH_REQUIRED(X)                                                                                 \
  X(abi_version, "aoti_torch_abi_version", uint64_t())                                                         \
  X(data_ptr, "aoti_torch_get_data_ptr", int32_t(TensorHandle, void**))                                        \
  X(sizes, "aoti_torch_get_sizes", int32_t(TensorHandle, int64_t**))                                           \
  X(strides, "aoti_torch_get_strides", int32_t(TensorHandle, int64_t**))                                       \
  X(dim, "aoti_torch_get_dim", int32_t(TensorHandle, int64_t*))                                                \
  X(dtype, "aoti_torch_get_dtype", int32_t(TensorHandle, int32_t*))                                            \
  X(storage_offset, "aoti_torch_get_storage_offset", int32_t(TensorHandle, int64_t*))                          \
  X(storage_size, "aoti_torch_get_storage_size", int32_t(TensorHandle, int64_t*))                              \
  X(device_type, "aoti_torch_get_device_type", int32_t(TensorHandle, int32_t*))                                \
  X(device_index, "aoti_torch_get_device_index", int32_t(TensorHandle, int32_t*))                              \
  X(is_defined, "aoti_torch_is_defined", int32_t(TensorHandle, bool*))                                         \
  X(new_handle, "aoti_torch_new_tensor_handle", int32_t(TensorHandle, TensorHandle*))                          \
  X(delete_tensor, "aoti_torch_delete_tensor_object", int32_t(TensorHandle))                                   \
  X(empty_strided, "aoti_torch_empty_strided",                                                                 \
    int32_t(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, TensorHandle*))                \
  X(reinterpret_tensor, "aoti_torch__reinterpret_tensor",                                                      \
    int32_t(TensorHandle, int64_t, const int64_t*, const int64_t*, int64_t, TensorHandle*))                    \
  X(alloc_from_pool, "aoti_torch__alloc_from_pool",                                                            \
    int32_t(TensorHandle, int64_t, int32_t, int64_t, const int64_t*, const int64_t*, TensorHandle*))           \
  X(from_blob, "aoti_torch_create_tensor_from_blob_v2",                                                        \
    int32_t(void*, int64_t, const int64_t*, const int64_t*, int64_t, int32_t, int32_t, int32_t, TensorHandle*, \
            int32_t, const uint8_t*, int64_t))                                                                 \
  X(copy_, "aoti_torch_copy_", int32_t(TensorHandle, TensorHandle, int32_t))                                   \
  X(call_dispatcher_v1, "aoti_torch_call_dispatcher", int32_t(const char*, const char*, StableIValue*))        \
  X(grad_mode_is_enabled, "aoti_torch_grad_mode_is_enabled", bool())                                           \
  X(grad_mode_set_enabled, "aoti_torch_grad_mode_set_enabled", void(bool))

// Without one of these something is slower, or goes through the foreign route (see external.h).
#define KILN_TORCH_OPTIONAL(X)                                                                            \
  X(exception_what, "torch_exception_get_what_without_backtrace", const char*())                          \
  X(parallel_for, "torch_parallel_for", int32_t(int64_t, int64_t, int64_t, ParallelBody*, void*))         \
  X(num_threads, "torch_get_num_threads", int32_t(uint32_t*))                                             \
  X(call_dispatcher, "torch_call_dispatcher", int32_t(const char*, const char*, StableIValue*, uint64_t)) \
  X(new_undefined, "aoti_torch_new_uninitialized_tensor", int32_t(TensorHandle*))                         \
  X(new_list, "torch_new_list_reserve_size", int32_t(size_t, StableList*))                                \
  X(list_push_back, "torch_list_push_back", int32_t(StableList, StableIValue))                            \
  X(list_size, "torch_list_size", int32_t(StableList, size_t*))                                           \
  X(list_get, "torch_list_get_item", int32_t(StableList, size_t, StableIValue*))                          \
  X(delete_list, "torch_delete_list", int32_t(StableList))                                                \
  X(new_ivalue, "torch_new_stable_ivalue", int32_t(StableIValue**))                                       \
  X(delete_ivalue, "torch_delete_stable_ivalue", int32_t(StableIValue*))                                  \
  X(new_string, "torch_new_string_handle", int32_t(const char*, size_t, StableString*))                   \
  X(delete_string, "torch_delete_string", int32_t(StableString))

// Of each device; "aoti_torch_" and the device come before the names. Optional too.
#define KILN_TORCH_OUT(X)                                                                                    \
  X(mm_out, "mm_out", int32_t(TensorHandle, TensorHandle, TensorHandle))                                     \
  X(bmm_out, "bmm_out", int32_t(TensorHandle, TensorHandle, TensorHandle))                                   \
  X(addmm_out, "addmm_out", int32_t(TensorHandle, TensorHandle, TensorHandle, TensorHandle, double, double)) \
  X(baddbmm_out, "baddbmm_out", int32_t(TensorHandle, TensorHandle, TensorHandle, TensorHandle, double, double))

// Immutable once loaded; every member may be called from any thread, with or without the interpreter's lock. The
// shims obey torch's thread-local state (grad mode, autocast).
struct TorchApi {
#define KILN_TORCH_FIELD(field, symbol, ...) std::add_pointer_t<__VA_ARGS__> field = nullptr;
  KILN_TORCH_REQUIRED(KILN_TORCH_FIELD)
  KILN_TORCH_OPTIONAL(KILN_TORCH_FIELD)

  struct OutShims {
    KILN_TORCH_OUT(KILN_TORCH_FIELD)
  };
#undef KILN_TORCH_FIELD
  std::array<OutShims, v1::DeviceType_ARRAYSIZE> out_shims;  // by v1::DeviceType
  // Of libtorch_cuda.so; null where this torch has no CUDA.
  int32_t (*current_cuda_stream)(int32_t device, void** stream) = nullptr;

  // Torch's codes, taken from its getters.
  std::array<int32_t, v1::DType_ARRAYSIZE> dtype_code{};        // by v1::DType; -1: this torch has none
  std::array<int32_t, v1::DeviceType_ARRAYSIZE> device_code{};  // by v1::DeviceType
  int32_t strided_layout = 0;
  std::array<int32_t, 4> memory_format_code{};  // contiguous, preserve, channels_last, channels_last_3d

  std::vector<std::string> missing;  // optional symbols that this torch lacks

  // `path` names a libtorch_cpu.so that is loaded already; it is never loaded a second time. The libtorch_cuda.so
  // beside it belongs to it. NotFound: it is not loaded; FailedPrecondition: a required symbol is missing, named.
  static absl::StatusOr<std::unique_ptr<TorchApi>> Load(const std::string& path);

  std::string Version() const;  // "2.13.0", from abi_version
  std::string What() const;     // the calling thread's last shim error
  // "CONTEXT: torch's message" as Internal, or as OutOfRange where torch's own exception is an IndexError.
  absl::Status Error(const std::string& context) const;
};

// An owned handle. Not thread-safe; needs the api for as long as it lives.
class OwnedTensor {
 public:
  explicit OwnedTensor(const TorchApi* api, TensorHandle handle = nullptr) : api_(api), handle_(handle) {}
  OwnedTensor(OwnedTensor&& o) noexcept : api_(o.api_), handle_(o.release()) {}
  OwnedTensor& operator=(OwnedTensor&& o) noexcept {
    reset(o.release());
    return *this;
  }
  ~OwnedTensor() { reset(); }

  TensorHandle get() const { return handle_; }
  TensorHandle* out() { return &handle_; }  // for a shim to write to; must be empty
  TensorHandle release() {
    TensorHandle h = handle_;
    handle_ = nullptr;
    return h;
  }
  void reset(TensorHandle handle = nullptr) {
    if (handle_ != nullptr) api_->delete_tensor(handle_);
    handle_ = handle;
  }

 private:
  const TorchApi* api_;
  TensorHandle handle_;
};

// Turns autograd off for the calling thread, and back to what it was.
class NoGrad {
 public:
  explicit NoGrad(const TorchApi& api) : api_(api), was_(api.grad_mode_is_enabled()) {
    if (was_) api_.grad_mode_set_enabled(false);
  }
  ~NoGrad() {
    if (was_) api_.grad_mode_set_enabled(true);
  }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  const TorchApi& api_;
  const bool was_;
};

}  // namespace kiln
