// Generated code of an artifact that is ready to run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cpp/program.h"
#include "client/cpp/team.h"
#include "client/cpp/torch_api.h"
#include "compiler/artifact/abi.h"

namespace kiln {

// Scratch of Kernels::Run, to be used again.
struct LaunchScratch {
  std::vector<void*> pointers;
  std::vector<KernelCall> calls;
  TeamClaims claims;
};

// Thread-safe.
class Kernels {
 public:
  virtual ~Kernels() = default;

  virtual size_t size() const = 0;

  // Runs launches of `program`, in order. `data` is the address of element 0 by value id, `slots` are the program's.
  // On a GPU they are given to torch's current stream, and this does not wait for them. OutOfRange: an index was out of
  // range (eager's IndexError), on the CPU; on a GPU that is a device-side assertion, as in eager. Other errors name
  // kernel, node and launch shape.
  virtual absl::Status Run(const Program& program, std::span<const Program::Launch> launches, char* const* data,
                           const int64_t* slots, LaunchScratch& scratch) const = 0;
};

class CpuKernels : public Kernels {
 public:
  // In the order of Artifact.kernels, a name each. Whoever has mapped the code keeps it.
  CpuKernels(const TorchApi* api, std::vector<KernelFn*> kernels, std::vector<std::string> names)
      : api_(*api), kernels_(std::move(kernels)), names_(std::move(names)) {}

  size_t size() const override { return kernels_.size(); }
  absl::Status Run(const Program& program, std::span<const Program::Launch> launches, char* const* data,
                   const int64_t* slots, LaunchScratch& scratch) const override;

 private:
  const TorchApi& api_;
  const std::vector<KernelFn*> kernels_;
  const std::vector<std::string> names_;
};

}  // namespace kiln
