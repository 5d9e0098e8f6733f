#include "server/request_key.h"

#include <algorithm>
#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/artifact/abi.h"
#include "server/wire.h"

namespace kiln {
namespace {

constexpr std::array<std::string_view, 4> kTorchVersions = {"2.11", "2.12", "2.13", "2.14"};

absl::Status Bad(const std::string& field, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
}

bool IsKnownTorch(const std::string& version) {
  return std::any_of(kTorchVersions.begin(), kTorchVersions.end(), [&](std::string_view prefix) {
    const std::string p(prefix);
    return version == p || absl::StartsWith(version, p + ".");
  });
}

std::string JoinTorchVersions() {
  return absl::StrJoin(kTorchVersions, ", ", [](std::string* out, std::string_view v) { out->append(v); });
}

absl::Status CheckTarget(const v1::Target& target, std::span<const std::string> targets) {
  if (std::find(targets.begin(), targets.end(), target.name()) == targets.end()) {
    return Bad("target.name",
               absl::StrCat("'", OneLine(target.name(), 100), "', this server makes ", absl::StrJoin(targets, ", ")));
  }
  const v1::HostAbi& host = target.host();
  if (!IsKnownTorch(host.torch_version())) {
    return Bad("target.host.torch_version", absl::StrCat("the client's torch is '", OneLine(host.torch_version(), 100),
                                                         "', this server serves ", JoinTorchVersions()));
  }
  if (host.kiln_abi() != kKilnAbi) {
    return Bad("target.host.kiln_abi",
               absl::StrCat("the client's is ", host.kiln_abi(), ", the server's is ", kKilnAbi));
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const v1::Options& options) {
  if (!v1::Options::Precision_IsValid(options.precision())) {
    return Bad("options.precision", absl::StrCat("unknown value ", static_cast<int>(options.precision())));
  }
  if (!(options.memory_budget() >= 0 && options.memory_budget() <= 1)) {
    return Bad("options.memory_budget", absl::StrCat("want 0 to 1, have ", options.memory_budget()));
  }
  return absl::OkStatus();
}

void DropSizeClasses(v1::SymTable* syms) {
  for (v1::Symbol& symbol : *syms->mutable_symbols()) symbol.clear_size_class();
}

}  // namespace

std::span<const std::string_view> TorchVersions() { return kTorchVersions; }

absl::Status CheckProtocolVersion(uint32_t client) {
  if (client == kProtocolVersion) return absl::OkStatus();
  return Bad("protocol_version", absl::StrCat("the client's is ", client, ", the server's is ", kProtocolVersion,
                                              ": install the same kiln on both sides"));
}

absl::Status CheckRequest(const v1::CompileRequest& request, std::span<const std::string> targets) {
  if (absl::Status s = CheckProtocolVersion(request.protocol_version()); !s.ok()) return s;
  const v1::Graph::Level level = request.graph().level();
  if (level != v1::Graph::TORCH && level != v1::Graph::JOINT && level != v1::Graph::INFERENCE) {
    return Bad("graph.level", absl::StrCat("unknown value ", static_cast<int>(level)));
  }
  if (absl::Status s = CheckTarget(request.target(), targets); !s.ok()) return s;
  return CheckOptions(request.options());
}

v1::CompileRequest CanonicalRequest(const v1::CompileRequest& request) {
  v1::CompileRequest out = request;
  out.clear_job();
  out.DiscardUnknownFields();
  if (out.graph().has_syms()) DropSizeClasses(out.mutable_graph()->mutable_syms());
  if (out.guards().has_syms()) DropSizeClasses(out.mutable_guards()->mutable_syms());
  if (!out.options().has_memory_budget()) out.mutable_options()->set_memory_budget(1.0);
  if (out.options().memory_budget() == 0) out.mutable_options()->set_memory_budget(0.0);  // without a sign
  return out;
}

absl::StatusOr<KeyParts> RequestKey(const v1::CompileRequest& canonical, const std::string& build) {
  const v1::Target& target = canonical.target();
  return KeyBuilder("compile")
      .Add("level", v1::Graph::Level_Name(canonical.graph().level()))
      .Add("graph", SerializeDeterministic(canonical.graph()))
      .Add("guards", SerializeDeterministic(canonical.guards()))
      .Add("precision", v1::Options::Precision_Name(canonical.options().precision()))
      .Add("memory_budget", absl::StrFormat("%.17g", canonical.options().memory_budget()))
      .Add("target", target.name())
      .Add("torch", target.host().torch_version())
      .Add("aoti_abi", absl::StrCat(target.host().aoti_abi()))
      .Add("kiln_abi", absl::StrCat(target.host().kiln_abi()))
      .Add("schema", absl::StrCat(kSchemaVersion))
      .Add("build", build)
      .Build();
}

Key CaptureKey(const Digest& digest, const std::string& build) {
  return KeyBuilder("capture")
      .Add("request", digest.Hex())
      .Add("schema", absl::StrCat(kSchemaVersion))
      .Add("build", build)
      .Build()
      .value()  // its names are distinct
      .ToKey();
}

std::string RequestBytes(const v1::CompileRequest& request) {
  if (!request.has_debug() && !request.has_job()) return SerializeDeterministic(request);
  v1::CompileRequest named = request;
  named.clear_debug();
  named.clear_job();
  return SerializeDeterministic(named);
}

absl::StatusOr<Key> KernelObjectKey(const v1::KernelSource& kernel, const std::string& target,
                                    const std::string& build) {
  absl::StatusOr<KeyParts> parts = KeyBuilder("kernel")
                                       .Add("symbol", kernel.symbol())
                                       .Add("text", kernel.text())
                                       .Add("target", target)
                                       .Add("build", build)
                                       .Build();
  if (!parts.ok()) return parts.status();
  return parts->ToKey();
}

}  // namespace kiln
