#include "client/cpp/host.h"

#include <algorithm>
#include <iterator>

namespace kiln {
namespace {

constexpr std::string_view kTargets[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};  // each runs the ones before it

}  // namespace

std::string_view HostTarget() {
#if defined(__x86_64__)
  // Asks the processor, and the system for the registers that it saves.
  if (__builtin_cpu_supports("x86-64-v4")) return "x86-64-v4";
  if (__builtin_cpu_supports("x86-64-v3")) return "x86-64-v3";
  if (__builtin_cpu_supports("x86-64-v2")) return "x86-64-v2";
#endif
  return "";
}

bool TargetRuns(std::string_view target, std::string_view host) {
  if (target.starts_with("sm_")) return target == host;
  const auto* t = std::find(std::begin(kTargets), std::end(kTargets), target);
  const auto* h = std::find(std::begin(kTargets), std::end(kTargets), host);
  return t != std::end(kTargets) && h != std::end(kTargets) && t <= h;
}

}  // namespace kiln
