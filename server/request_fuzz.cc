// Any bytes as a request: its size in memory is not underestimated, and admission and keys neither crash nor depend on
// how the message was encoded; and it is an instance of what is made of it.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "proto/compile.pb.h"
#include "proto/config.pb.h"
#include "server/admission.h"
#include "server/config.h"
#include "server/generalize.h"
#include "server/parsed_size.h"
#include "server/request_key.h"
#include "server/skeleton.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kiln::v1::CompileRequest request;
  const std::string_view wire(reinterpret_cast<const char*>(data), size);
  const auto parsed = kiln::ParsedSize(wire, *request.GetDescriptor(), 1 << 30);
  if (!request.ParseFromArray(data, static_cast<int>(size))) return 0;
  if (!parsed.ok() || *parsed < request.SpaceUsedLong()) abort();
  kiln::v1::Config config;
  if (!kiln::CompleteConfig(&config).ok()) abort();
  kiln::CheckRequest(request, std::vector<std::string>{"x86-64-v3"}).IgnoreError();
  kiln::CheckBounds(request, config.limits()).IgnoreError();

  const kiln::v1::CompileRequest canonical = kiln::CanonicalRequest(request);
  const auto parts = kiln::RequestKey(canonical, "build");
  if (!parts.ok()) abort();
  // Canonical means: nothing more to do, and the same again after a trip over the wire.
  kiln::v1::CompileRequest again;
  if (!again.ParseFromString(canonical.SerializeAsString())) abort();
  const auto same = kiln::RequestKey(kiln::CanonicalRequest(again), "build");
  if (!same.ok() || same->ToKey() != parts->ToKey()) abort();

  // What is made of three requests has the asking one as an instance.
  if (const auto skeleton = kiln::SkeletonOf(canonical, "build")) {
    std::vector<std::vector<int64_t>> others(2, skeleton->values);
    for (size_t i = 0; i < skeleton->values.size(); ++i) {
      const uint64_t value = static_cast<uint64_t>(skeleton->values[i]);
      others[0][i] = static_cast<int64_t>(value + 1);
      others[1][i] = static_cast<int64_t>(value * 2 + i % 2);
    }
    if (const auto general = kiln::Generalize(*skeleton, others)) {
      kiln::v1::SkeletonMember member;
      member.mutable_values()->Assign(skeleton->values.begin(), skeleton->values.end());
      *member.mutable_generalization() = *general;
      if (!kiln::IsInstance(member, skeleton->values)) abort();
    }
  }
  return 0;
}
