#include "server/cuda_tools.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "cache/digest.h"
#include "server/run_tool.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kTimeForVersion = absl::Seconds(20);
constexpr size_t kBuildDigits = 12;

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

// What is in a folder and begins with `prefix`, the newest version first.
std::vector<fs::path> Children(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> children;
  std::error_code error;
  for (const auto& child : fs::directory_iterator(folder, error)) {
    if (child.path().filename().string().starts_with(prefix)) children.push_back(child.path());
  }
  std::ranges::sort(children, std::greater<>());
  return children;
}

struct Place {
  fs::path ptxas, libdevice;
};

// As CUDA's own installer lays it out, and NVIDIA's Python packages.
Place Toolkit(const fs::path& home) { return {home / "bin/ptxas", home / "nvvm/libdevice/libdevice.10.bc"}; }
// As Triton brings it along, and so PyTorch.
Place Triton(const fs::path& packages) {
  const fs::path home = packages / "triton/backends/nvidia";
  return {home / "bin/ptxas", home / "lib/libdevice.10.bc"};
}

// In the order in which they are looked at.
std::vector<Place> Places(const CudaEnv& env) {
  std::vector<Place> places;
  if (!env.cuda_home.empty()) places.push_back(Toolkit(env.cuda_home));
  const std::vector<std::string> path = absl::StrSplit(env.path, ':', absl::SkipEmpty());
  for (const std::string& folder : path) {
    std::error_code error;
    const fs::path ptxas = fs::weakly_canonical(fs::path(folder) / "ptxas", error);
    if (!error && access(ptxas.c_str(), X_OK) == 0) places.push_back(Toolkit(ptxas.parent_path().parent_path()));
  }
  // Beside kilnd's own package: ENVIRONMENT/bin/kilnd, ENVIRONMENT/lib/python3.N/site-packages/nvidia/cuNN.
  const fs::path lib = fs::path(env.program).parent_path().parent_path() / "lib";
  for (const fs::path& python : Children(lib, "python3")) {
    for (const fs::path& home : Children(python / "site-packages/nvidia", "cu")) places.push_back(Toolkit(home));
  }
  for (const fs::path& python : Children(lib, "python3")) places.push_back(Triton(python / "site-packages"));
  if (!env.usual_home.empty()) places.push_back(Toolkit(env.usual_home));
  return places;
}

// What `ptxas --version` says, which names its build; "" if it does not run.
std::string VersionOf(const std::string& ptxas) {
  const absl::StatusOr<ToolResult> result = RunTool({ptxas, "--version"}, "/", absl::Now() + kTimeForVersion);
  return result.ok() && result->exit_status == 0 ? result->output : "";
}

std::string Contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

bool TakePtxas(const std::string& path, CudaTools& tools) {
  if (access(path.c_str(), X_OK) != 0) return false;
  tools.ptxas_version = VersionOf(path);
  if (tools.ptxas_version.empty()) return false;
  tools.ptxas = path;
  return true;
}

bool TakeLibdevice(const fs::path& path, CudaTools& tools) {
  tools.libdevice = Contents(path);
  if (tools.libdevice.empty()) return false;
  tools.libdevice_path = path.string();
  return true;
}

}  // namespace

CudaEnv CudaEnv::FromProcess() {
  std::error_code error;
  return {.cuda_home = Variable("CUDA_HOME"),
          .path = Variable("PATH"),
          .program = fs::read_symlink("/proc/self/exe", error).string(),
          .usual_home = "/usr/local/cuda"};
}

absl::StatusOr<CudaTools> FindCudaTools(const v1::Config::Cuda& config, const CudaEnv& env) {
  CudaTools tools;
  if (!config.ptxas().empty() && !TakePtxas(config.ptxas(), tools)) {
    return absl::InvalidArgumentError(absl::StrCat("config: cuda.ptxas: ", config.ptxas(), " does not run"));
  }
  if (!config.libdevice().empty() && !TakeLibdevice(config.libdevice(), tools)) {
    return absl::InvalidArgumentError(absl::StrCat("config: cuda.libdevice: cannot read ", config.libdevice()));
  }
  for (const Place& place : Places(env)) {
    if (tools.ptxas.empty()) TakePtxas(place.ptxas.string(), tools);
    if (tools.libdevice.empty()) TakeLibdevice(place.libdevice, tools);
  }
  return tools;
}

std::string CudaTools::BuildWith(const std::string& build) const {
  if (ptxas.empty() && libdevice.empty()) return build;
  Hasher hasher;
  for (const std::string& part : {build, ptxas_version, libdevice}) {
    hasher.Update(absl::StrCat(part.size(), " "));
    hasher.Update(part);
  }
  return hasher.Finish().Hex().substr(0, kBuildDigits);
}

std::string CudaTools::Describe() const {
  return absl::StrCat("CUDA: ", ptxas.empty() ? "no ptxas: GPUs' drivers compile the code when they load it" : ptxas,
                      "; ", libdevice.empty() ? "no libdevice: kiln's own functions" : libdevice_path,
                      ptxas.empty() || libdevice.empty() ? " (see cuda in kilnd's configuration)" : "");
}

}  // namespace kiln
