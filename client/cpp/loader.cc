#include "client/cpp/loader.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/cuda_driver.h"
#include "client/cpp/cuda_kernels.h"

namespace kiln {
namespace {

absl::Status SystemError(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

// The dynamic linker takes a file that it has mapped under the same name for the same file, and descriptors are
// reused. So each name is spelt in a way of its own: a number's bits as "/" and "/.".
std::string UniquePath(int fd) {
  static std::atomic<uint32_t> loads{0};
  std::string path = "/proc/self/fd";
  for (uint32_t n = ++loads; n != 0; n >>= 1) path += (n & 1) != 0 ? "/." : "/";
  return absl::StrCat(path, "/", fd);
}

absl::Status WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return SystemError("writing a memory file");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedObject>> SharedObject::Map(std::string_view bytes) {
  const int fd = memfd_create("kiln", MFD_CLOEXEC);
  if (fd < 0) return SystemError("memfd_create");
  absl::Status status = WriteAll(fd, bytes);
  void* library = nullptr;
  if (status.ok()) {
    library = dlopen(UniquePath(fd).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) status = absl::UnavailableError(absl::StrCat("mapping the shared object: ", dlerror()));
  }
  close(fd);  // the mapping keeps the file
  if (!status.ok()) return status;
  return std::unique_ptr<SharedObject>(new SharedObject(library));
}

SharedObject::~SharedObject() { dlclose(library_); }

KernelFn* SharedObject::Kernel(const std::string& symbol) const {
  return reinterpret_cast<KernelFn*>(dlsym(library_, symbol.c_str()));
}

absl::Status LoadedArtifact::LoadKernels(const v1::Artifact& artifact, std::string_view code, const TorchApi* api,
                                         int device_index) {
  const bool on_gpu = artifact.target().name().starts_with("sm_");
  if (on_gpu && artifact.kernels_size() != 0) {
    absl::StatusOr<const CudaDriver*> driver = CudaDriver::Get();
    if (!driver.ok()) return driver.status();
    absl::StatusOr<std::unique_ptr<CudaKernels>> kernels =
        CudaKernels::Load(code, artifact.kernels(), *driver, api, device_index);
    if (!kernels.ok()) return kernels.status();
    kernels_ = *std::move(kernels);
    return absl::OkStatus();
  }
  std::vector<KernelFn*> kernels;
  std::vector<std::string> names;
  if (artifact.kernels_size() != 0) {
    absl::StatusOr<std::unique_ptr<SharedObject>> object = SharedObject::Map(code);
    if (!object.ok()) return object.status();
    object_ = *std::move(object);
  }
  for (const v1::KernelRef& ref : artifact.kernels()) {
    KernelFn* kernel = object_->Kernel(ref.symbol());
    if (kernel == nullptr) return absl::InvalidArgumentError(absl::StrCat("the shared object has no ", ref.symbol()));
    kernels.push_back(kernel);
    names.push_back(ref.symbol());
  }
  kernels_ = std::make_unique<CpuKernels>(api, std::move(kernels), std::move(names));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LoadedArtifact>> LoadedArtifact::Load(std::string_view artifact,
                                                                     std::string_view shared_object,
                                                                     const HostFacts& host, const TorchApi* api,
                                                                     ForeignOps* foreign, StoragePool* pool,
                                                                     int device_index) {
  absl::StatusOr<VerifiedArtifact> verified = VerifyArtifact(artifact, shared_object, host);
  if (!verified.ok()) return verified.status();
  std::unique_ptr<LoadedArtifact> loaded(new LoadedArtifact);
  loaded->signature_ = verified->proto.signature();
  if (absl::Status s = loaded->LoadKernels(verified->proto, shared_object, api, device_index); !s.ok()) return s;
  std::vector<std::string> constants;
  for (v1::Artifact::Constant& c : *verified->proto.mutable_constants())
    constants.push_back(std::move(*c.mutable_data()));
  for (Program& program : verified->programs) {
    absl::StatusOr<std::unique_ptr<Function>> function =
        Function::Create(std::move(program), loaded->kernels_.get(), constants, api, foreign, pool, device_index);
    if (!function.ok()) return function.status();
    loaded->functions_.push_back(*std::move(function));
  }
  return loaded;
}

}  // namespace kiln
