// Maps an artifact's code and binds its functions.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/external.h"
#include "client/cpp/kernels.h"
#include "client/cpp/runtime.h"
#include "client/cpp/torch_api.h"
#include "client/cpp/verify.h"
#include "compiler/artifact/abi.h"
#include "proto/artifact.pb.h"

namespace kiln {

// A shared object that exists in memory only. Unmapped by the destructor.
class SharedObject {
 public:
  // Unavailable: the system gives no memory file or refuses to map it; the message is its own.
  static absl::StatusOr<std::unique_ptr<SharedObject>> Map(std::string_view bytes);
  ~SharedObject();
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  KernelFn* Kernel(const std::string& symbol) const;  // nullptr: no such symbol

 private:
  explicit SharedObject(void* library) : library_(library) {}
  void* library_;
};

// An artifact ready to be called. Immutable; thread-safe.
class LoadedArtifact {
 public:
  // Verifies (see verify.h), maps, binds. `api` and `pool`, which may be null, must outlive the result; so must
  // `foreign`'s calls' own context. `device_index` is the GPU's, for an artifact that is for one.
  static absl::StatusOr<std::unique_ptr<LoadedArtifact>> Load(std::string_view artifact, std::string_view shared_object,
                                                              const HostFacts& host, const TorchApi* api,
                                                              ForeignOps* foreign, StoragePool* pool = nullptr,
                                                              int device_index = 0);

  const v1::PlanSignature& signature() const { return signature_; }
  size_t num_kernels() const { return kernels_->size(); }
  size_t num_functions() const { return functions_.size(); }
  Function& function(size_t i) const { return *functions_[i]; }

 private:
  LoadedArtifact() = default;
  absl::Status LoadKernels(const v1::Artifact& artifact, std::string_view code, const TorchApi* api, int device_index);
  v1::PlanSignature signature_;
  std::unique_ptr<SharedObject> object_;  // null if there are no kernels for the CPU
  std::unique_ptr<Kernels> kernels_;
  std::vector<std::unique_ptr<Function>> functions_;
};

}  // namespace kiln
