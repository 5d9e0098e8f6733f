#include "client/cpp/cuda_kernels.h"

#include <array>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

// CUdevice_attribute and CUjit_option (cuda.h).
constexpr int kComputeCapabilityMajor = 75;
constexpr int kComputeCapabilityMinor = 76;
constexpr int kErrorLogBuffer = 5;
constexpr int kErrorLogBytes = 6;

constexpr char kElfMagic[] =
    "\x7f"
    "ELF";
constexpr char kAlignedSuffix[] = "_aligned";
constexpr int64_t kMostBlocks = std::numeric_limits<int32_t>::max();  // of a grid, in its first dimension

}  // namespace

absl::StatusOr<std::string> CudaTarget(int device) {
  const absl::StatusOr<const CudaDriver*> found = CudaDriver::Get();
  if (!found.ok()) return found.status();
  const CudaDriver& driver = **found;
  CudaDevice handle = 0;
  int major = 0, minor = 0;
  CudaResult result = driver.device_get(&handle, device);
  if (result == 0) result = driver.device_attribute(&major, kComputeCapabilityMajor, handle);
  if (result == 0) result = driver.device_attribute(&minor, kComputeCapabilityMinor, handle);
  if (result != 0) return driver.Error(absl::StrCat("cuda:", device), result);
  return absl::StrCat("sm_", major, minor);
}

absl::StatusOr<std::unique_ptr<CudaKernels>> CudaKernels::Load(
    std::string_view code, const google::protobuf::RepeatedPtrField<v1::KernelRef>& kernels, const CudaDriver* driver,
    const TorchApi* api, int device) {
  v1::CudaCode modules;
  if (!modules.ParseFromArray(code.data(), static_cast<int>(code.size())) || modules.modules_size() != kernels.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the code is not that of ", kernels.size(), " CUDA kernels"));
  }
  if (api->current_cuda_stream == nullptr) return absl::FailedPreconditionError("this torch has no CUDA");
  std::unique_ptr<CudaKernels> loaded(new CudaKernels(driver, api, device));
  CudaDevice handle = 0;
  CudaResult result = driver->device_get(&handle, device);
  if (result == 0) result = driver->retain_context(&loaded->context_, handle);
  if (result != 0) return driver->Error(absl::StrCat("cuda:", device), result);
  const CudaCurrent current(*driver, loaded->context_);
  for (int i = 0; i < kernels.size(); ++i) {
    if (absl::Status s = loaded->LoadKernel(kernels[i], modules.modules(i)); !s.ok()) return s;
  }
  return loaded;
}

absl::Status CudaKernels::LoadKernel(const v1::KernelRef& ref, const std::string& code) {
  Kernel& kernel = kernels_.emplace_back();
  kernel.name = ref.symbol();
  kernel.threads = ref.threads();
  // Strings end with a zero, which is where the driver sees the end of PTX.
  const bool is_ptx = !absl::StartsWith(code, kElfMagic);
  if (is_ptx && code.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("kernel ", kernel.name, ": neither a cubin nor PTX"));
  }
  std::array<char, 4096> log{};
  std::array<int, 2> options = {kErrorLogBuffer, kErrorLogBytes};
  std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
  CudaResult result = driver_.load_module(&kernel.module, code.data(), options.size(), options.data(), values.data());
  if (result == 0) result = driver_.get_function(&kernel.general, kernel.module, kernel.name.c_str());
  const std::string aligned = absl::StrCat(kernel.name, kAlignedSuffix);
  if (result == 0) result = driver_.get_function(&kernel.aligned, kernel.module, aligned.c_str());
  if (result == 0) return absl::OkStatus();
  return driver_.Error(absl::StrCat("loading kernel ", kernel.name, log[0] == '\0' ? "" : ": ", log.data()), result);
}

CudaKernels::~CudaKernels() {
  if (context_ == nullptr) return;
  {
    const CudaCurrent current(driver_, context_);
    for (const Kernel& kernel : kernels_) {
      if (kernel.module != nullptr) driver_.unload_module(kernel.module);
    }
  }
  CudaDevice handle = 0;
  if (driver_.device_get(&handle, device_) == 0) driver_.release_context(handle);
}

absl::Status CudaKernels::Run(const Program& program, std::span<const Program::Launch> launches, char* const* data,
                              const int64_t* slots, LaunchScratch& scratch) const {
  void* stream = nullptr;
  if (api_.current_cuda_stream(device_, &stream) != 0) return api_.Error(absl::StrCat("cuda:", device_));
  const CudaCurrent current(driver_, context_);
  for (const Program::Launch& launch : launches) {
    absl::Status s = Launch(program, launch, data, slots, static_cast<CudaStream>(stream), scratch);
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

// A kernel's parameters are its buffers and its sizes, each by itself.
absl::Status CudaKernels::Launch(const Program& program, const Program::Launch& launch, char* const* data,
                                 const int64_t* slots, CudaStream stream, LaunchScratch& scratch) const {
  const int64_t blocks = slots[launch.extent];
  if (blocks == 0) return absl::OkStatus();
  const Kernel& kernel = kernels_[launch.kernel];
  const auto where = [&] {
    return absl::StrCat("kernel ", kernel.name, " (node ", launch.origin, "), ", blocks, " blocks of ", kernel.threads,
                        " threads on cuda:", device_);
  };
  if (blocks > kMostBlocks) return absl::ResourceExhaustedError(absl::StrCat(where(), ": a grid has no room for them"));
  scratch.pointers.clear();
  uintptr_t address_bits = 0;
  for (const uint32_t id : std::span(program.buffers).subspan(launch.first_buffer, launch.num_buffers)) {
    scratch.pointers.push_back(const_cast<char**>(&data[id]));
    address_bits |= reinterpret_cast<uintptr_t>(data[id]);
  }
  for (uint32_t i = 0; i < launch.num_sizes; ++i) {
    scratch.pointers.push_back(const_cast<int64_t*>(&slots[launch.sizes + i]));
  }
  const CudaFunction function = address_bits % kAlignment == 0 ? kernel.aligned : kernel.general;
  const CudaResult result = driver_.launch(function, static_cast<unsigned>(blocks), 1, 1, kernel.threads, 1, 1, 0,
                                           stream, scratch.pointers.data(), nullptr);
  return result == 0 ? absl::OkStatus() : driver_.Error(where(), result);
}

}  // namespace kiln
