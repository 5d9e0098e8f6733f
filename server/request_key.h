// What a request is, as a key: named parts, computed here from content.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cache/digest.h"
#include "cache/key.h"
#include "proto/compile.pb.h"
#include "proto/jobs.pb.h"

namespace kiln {

// Raised when the meaning of the messages changes without a change of the compiler's build.
inline constexpr int kSchemaVersion = 1;

// The torch versions that this server answers for, as prefixes.
std::span<const std::string_view> TorchVersions();

// InvalidArgument naming both versions.
absl::Status CheckProtocolVersion(uint32_t client);

// Versions, level, target and options: InvalidArgument names the field, what it is and what this server takes.
absl::Status CheckRequest(const v1::CompileRequest& request, std::span<const std::string> targets);

// The request as the compiler sees it, and as it is hashed: no job, no size classes (so that one artifact, the general
// variant, serves all sizes), no unknown fields, unset options replaced by what they stand for.
v1::CompileRequest CanonicalRequest(const v1::CompileRequest& request);

// The parts of the key of a canonical request: level, graph, guards, precision, memory_budget, target, torch, aoti_abi,
// kiln_abi, schema, build. Graphs above AOTAutograd's (Graph.TORCH) and below never share a key.
absl::StatusOr<KeyParts> RequestKey(const v1::CompileRequest& canonical, const std::string& build);

// The key under which the variants of a graph of level TORCH are kept. `digest` is that of RequestBytes.
Key CaptureKey(const Digest& digest, const std::string& build);

// The request as a client names it by digest: in field order, without debug and job. Fields that this server does not
// know are in it, as they are in what the client hashes.
std::string RequestBytes(const v1::CompileRequest& request);

// The key of a kernel's object: its text and symbol, target, build.
absl::StatusOr<Key> KernelObjectKey(const v1::KernelSource& kernel, const std::string& target,
                                    const std::string& build);

}  // namespace kiln
