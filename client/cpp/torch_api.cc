#include "client/cpp/torch_api.h"

#include <dlfcn.h>

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

struct DTypeGetter {
  v1::DType dtype;
  const char* symbol;
};

constexpr DTypeGetter kDTypeGetters[] = {
    {v1::BOOL, "aoti_torch_dtype_bool"},
    {v1::UINT8, "aoti_torch_dtype_uint8"},
    {v1::INT8, "aoti_torch_dtype_int8"},
    {v1::INT16, "aoti_torch_dtype_int16"},
    {v1::INT32, "aoti_torch_dtype_int32"},
    {v1::INT64, "aoti_torch_dtype_int64"},
    {v1::FLOAT16, "aoti_torch_dtype_float16"},
    {v1::BFLOAT16, "aoti_torch_dtype_bfloat16"},
    {v1::FLOAT32, "aoti_torch_dtype_float32"},
    {v1::FLOAT64, "aoti_torch_dtype_float64"},
    {v1::COMPLEX32, "aoti_torch_dtype_complex32"},
    {v1::COMPLEX64, "aoti_torch_dtype_complex64"},
    {v1::COMPLEX128, "aoti_torch_dtype_complex128"},
    {v1::FLOAT8_E4M3FN, "aoti_torch_dtype_float8_e4m3fn"},
    {v1::FLOAT8_E5M2, "aoti_torch_dtype_float8_e5m2"},
    {v1::FLOAT8_E4M3FNUZ, "aoti_torch_dtype_float8_e4m3fnuz"},
    {v1::FLOAT8_E5M2FNUZ, "aoti_torch_dtype_float8_e5m2fnuz"},
    {v1::UINT16, "aoti_torch_dtype_uint16"},
    {v1::UINT32, "aoti_torch_dtype_uint32"},
    {v1::UINT64, "aoti_torch_dtype_uint64"},
};

constexpr const char* kMemoryFormatGetters[] = {
    "aoti_torch_memory_format_contiguous_format",
    "aoti_torch_memory_format_preserve_format",
    "aoti_torch_memory_format_channels_last",
    "aoti_torch_memory_format_channels_last_3d",
};

// The value of a getter of one of torch's enums, `otherwise` where torch has no such getter.
int32_t Ask(void* library, const char* symbol, int32_t otherwise) {
  auto* getter = reinterpret_cast<int32_t (*)()>(dlsym(library, symbol));
  return getter == nullptr ? otherwise : getter();
}

void LoadOut(void* library, const std::string& device, TorchApi::OutShims& shims){
#define KILN_TORCH_LOAD_OUT(field, name, ...) \
  *reinterpret_cast<void**>(&shims.field) = dlsym(library, absl::StrCat("aoti_torch_", device, "_" name).c_str());
    KILN_TORCH_OUT(KILN_TORCH_LOAD_OUT)
#undef KILN_TORCH_LOAD_OUT
}

std::string Beside(const std::string& path, const char* name) {
  return absl::StrCat(path.substr(0, path.rfind('/') + 1), name);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TorchApi>> TorchApi::Load(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return absl::NotFoundError(absl::StrCat(path, " is not loaded in this process"));
  auto api = std::make_unique<TorchApi>();
#define KILN_TORCH_LOAD(field, symbol, ...)                        \
  *reinterpret_cast<void**>(&api->field) = dlsym(library, symbol); \
  if (api->field == nullptr) api->missing.push_back(symbol);
  KILN_TORCH_REQUIRED(KILN_TORCH_LOAD)
  if (!api->missing.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(path, " has no ", api->missing[0]));
  }
  KILN_TORCH_OPTIONAL(KILN_TORCH_LOAD)
#undef KILN_TORCH_LOAD
  LoadOut(library, "cpu", api->out_shims[v1::CPU]);
  if (void* cuda = dlopen(Beside(path, "libtorch_cuda.so").c_str(), RTLD_NOW | RTLD_NOLOAD); cuda != nullptr) {
    LoadOut(cuda, "cuda", api->out_shims[v1::CUDA]);
    *reinterpret_cast<void**>(&api->current_cuda_stream) = dlsym(cuda, "aoti_torch_get_current_cuda_stream");
  }
  api->dtype_code.fill(-1);
  for (const DTypeGetter& g : kDTypeGetters) api->dtype_code[g.dtype] = Ask(library, g.symbol, -1);
  api->device_code[v1::CPU] = Ask(library, "aoti_torch_device_type_cpu", 0);
  api->device_code[v1::CUDA] = Ask(library, "aoti_torch_device_type_cuda", 1);
  api->strided_layout = Ask(library, "aoti_torch_layout_strided", 0);
  for (int i = 0; i < 4; ++i) api->memory_format_code[i] = Ask(library, kMemoryFormatGetters[i], i);
  return api;
}

std::string TorchApi::Version() const {
  const uint64_t v = abi_version();
  return absl::StrCat(v >> 56, ".", v >> 48 & 0xff, ".", v >> 40 & 0xff);
}

std::string TorchApi::What() const {
  const char* what = exception_what == nullptr ? nullptr : exception_what();
  return what == nullptr || *what == '\0' ? "torch gave no reason" : what;
}

// The shims keep the message of an exception but not its type. ATen's index checks, alone, are told from the rest by
// their wording, because eager raises IndexError for them: OutOfRange stands for that.
absl::Status TorchApi::Error(const std::string& context) const {
  const std::string what = What();
  const std::string message = absl::StrCat(context, ": ", what);
  const bool index_error = absl::StrContains(what, "index out of range") ||
                           (absl::StartsWith(what, "index ") && absl::StrContains(what, "is out of bounds"));
  return index_error ? absl::OutOfRangeError(message) : absl::InternalError(message);
}

}  // namespace kiln
