// An artifact's kernels on a GPU.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/cuda_driver.h"
#include "client/cpp/kernels.h"
#include "client/cpp/torch_api.h"
#include "proto/artifact.pb.h"

namespace kiln {

// "sm_90": the compute capability of torch's CUDA device number `device`, as a target's name. Errors are
// CudaDriver::Get's and the driver's own.
absl::StatusOr<std::string> CudaTarget(int device);

class CudaKernels : public Kernels {
 public:
  // `code` is a serialised v1::CudaCode with a module for each of `kernels`. The driver and the api outlive the result.
  // InvalidArgument: the code is not that. Internal: the driver refuses it, in its own words.
  static absl::StatusOr<std::unique_ptr<CudaKernels>> Load(
      std::string_view code, const google::protobuf::RepeatedPtrField<v1::KernelRef>& kernels, const CudaDriver* driver,
      const TorchApi* api, int device);
  ~CudaKernels() override;

  size_t size() const override { return kernels_.size(); }
  absl::Status Run(const Program& program, std::span<const Program::Launch> launches, char* const* data,
                   const int64_t* slots, LaunchScratch& scratch) const override;

 private:
  struct Kernel {
    std::string name;
    unsigned threads = 1;
    CudaModule module = nullptr;
    CudaFunction general = nullptr;
    CudaFunction aligned = nullptr;  // for buffers that all begin at multiples of kAlignment bytes
  };
  static constexpr uintptr_t kAlignment = 16;  // codegen/cuda/ptx.h's kBufferAlignment

  CudaKernels(const CudaDriver* driver, const TorchApi* api, int device)
      : driver_(*driver), api_(*api), device_(device) {}
  absl::Status LoadKernel(const v1::KernelRef& ref, const std::string& code);
  absl::Status Launch(const Program& program, const Program::Launch& launch, char* const* data, const int64_t* slots,
                      CudaStream stream, LaunchScratch& scratch) const;

  const CudaDriver& driver_;
  const TorchApi& api_;
  const int device_;
  CudaContext context_ = nullptr;  // the device's primary one, which is torch's
  std::vector<Kernel> kernels_;
};

}  // namespace kiln
