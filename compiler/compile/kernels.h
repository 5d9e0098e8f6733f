// The distinct kernels of a plan.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "compiler/loop/ir.h"
#include "proto/jobs.pb.h"

namespace kiln {

// Kernels are named by content: equal loop nests are one kernel, whatever model and layer they come from.
class KernelPool {
 public:
  KernelPool(std::string target, std::string build) : target_(std::move(target)), build_(std::move(build)) {}

  // Index of the kernel among the pool's; `kernel` is normalised.
  uint32_t Add(const loop::Kernel& kernel);
  const std::vector<v1::KernelSource>& kernels() const { return kernels_; }

 private:
  const std::string target_;
  const std::string build_;
  std::vector<v1::KernelSource> kernels_;
  absl::flat_hash_map<std::string, uint32_t> index_of_;  // by text
};

}  // namespace kiln
