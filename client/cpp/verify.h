// Decides whether an artifact may be loaded here. Whatever the bytes are, nothing crashes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/program.h"
#include "proto/artifact.pb.h"

namespace kiln {

struct HostFacts {
  std::string target;         // HostTarget(), or the GPU's
  std::string torch_version;  // "2.13.0"
  uint64_t aoti_abi = 0;
};

struct VerifiedArtifact {
  v1::Artifact proto;
  std::vector<Program> programs;  // one a function
};

// Checks version, target, host ABI, the shared object's digest, kernel names, constants, and builds every function.
// FailedPrecondition: made for another host, naming both sides; DataLoss: a digest does not match; InvalidArgument: the
// artifact contradicts itself, naming the place.
absl::StatusOr<VerifiedArtifact> VerifyArtifact(std::string_view artifact, std::string_view shared_object,
                                                const HostFacts& host);

}  // namespace kiln
