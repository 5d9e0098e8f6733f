#include "client/cpp/verify.h"

#include <algorithm>
#include <cctype>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/digest.h"
#include "client/cpp/host.h"
#include "compiler/artifact/abi.h"

namespace kiln {
namespace {

constexpr size_t kMaxArtifactBytes = size_t{1} << 30;
constexpr int kMaxFunctions = 16;
constexpr size_t kMaxSymbolName = 255;

absl::Status CheckHost(const v1::Artifact& artifact, const HostFacts& host) {
  const auto other = [](const auto&... parts) {
    return absl::FailedPreconditionError(absl::StrCat("the artifact is for ", parts...));
  };
  if (artifact.version() != kArtifactVersion) {
    return other("artifact version ", artifact.version(), ", this is version ", kArtifactVersion);
  }
  const v1::Target& target = artifact.target();
  if (target.host().kiln_abi() != kKilnAbi) return other("kiln ABI ", target.host().kiln_abi(), ", this is ", kKilnAbi);
  if (target.host().torch_version() != host.torch_version) {
    return other("torch ", target.host().torch_version(), ", this is torch ", host.torch_version);
  }
  if (target.host().aoti_abi() != host.aoti_abi) {
    return other("torch ABI ", target.host().aoti_abi(), ", this is ", host.aoti_abi);
  }
  if (!TargetRuns(target.name(), host.target)) return other(target.name(), ", this machine is ", host.target);
  return absl::OkStatus();
}

bool IsSymbolName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxSymbolName &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

absl::Status CheckBlobs(const v1::Artifact& artifact, std::string_view shared_object) {
  if (artifact.kernels_size() != 0 && !artifact.has_shared_object()) {
    return absl::InvalidArgumentError("kernels but no shared_object");
  }
  if (artifact.has_shared_object() && !Matches(artifact.shared_object(), shared_object)) {
    return absl::DataLossError(
        absl::StrCat("the shared object is not the one that the artifact names, ", Hex(artifact.shared_object())));
  }
  for (int i = 0; i < artifact.kernels_size(); ++i) {
    if (!IsSymbolName(artifact.kernels(i).symbol())) {
      return absl::InvalidArgumentError(absl::StrCat("kernels[", i, "].symbol: not a name"));
    }
  }
  for (int i = 0; i < artifact.constants_size(); ++i) {
    const v1::Artifact::Constant& constant = artifact.constants(i);
    if (constant.has_digest() && !Matches(constant.digest(), constant.data())) {
      return absl::DataLossError(absl::StrCat("constants[", i, "] does not have its digest"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<VerifiedArtifact> VerifyArtifact(std::string_view artifact, std::string_view shared_object,
                                                const HostFacts& host) {
  VerifiedArtifact result;
  if (artifact.size() > kMaxArtifactBytes) return absl::InvalidArgumentError("artifact: larger than 1 GiB");
  if (!result.proto.ParseFromArray(artifact.data(), static_cast<int>(artifact.size()))) {
    return absl::InvalidArgumentError("artifact: not a kiln.v1.Artifact");
  }
  if (absl::Status s = CheckHost(result.proto, host); !s.ok()) return s;
  if (absl::Status s = CheckBlobs(result.proto, shared_object); !s.ok()) return s;
  if (result.proto.functions_size() == 0 || result.proto.functions_size() > kMaxFunctions) {
    return absl::InvalidArgumentError(absl::StrCat("artifact: ", result.proto.functions_size(), " functions"));
  }
  for (int i = 0; i < result.proto.functions_size(); ++i) {
    absl::StatusOr<Program> program = Program::Build(result.proto, i);
    if (!program.ok()) return program.status();
    result.programs.push_back(*std::move(program));
  }
  return result;
}

}  // namespace kiln
