#include "server/explain_advice.h"

#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

constexpr std::string_view kUpgraded = "kiln was upgraded: install one version everywhere, and prewarm when you deploy";
constexpr std::string_view kTorch = "the jobs run different builds of torch: install one, or prewarm with each";
constexpr std::string_view kMode =
    "the code ran with gradients and without: call it in one mode (torch.no_grad(), torch.inference_mode()), or "
    "prewarm "
    "both";

constexpr std::array kParts = {
    std::pair{"level", std::string_view("one is for training, the other for inference: grad mode and requires_grad of "
                                        "the inputs decide which")},
    std::pair{"precision", std::string_view("set the option precision (KILN_PRECISION) alike in all jobs")},
    std::pair{"memory_budget", std::string_view("set the option memory_budget (KILN_MEMORY_BUDGET, or "
                                                "activation_memory_budget) alike in all jobs")},
    std::pair{"target", std::string_view("the hosts' processors are of different levels: prewarm on each kind")},
    std::pair{"torch", kTorch},
    std::pair{"aoti_abi", kTorch},
    std::pair{"kiln_abi", kUpgraded},
    std::pair{"schema", kUpgraded},
    std::pair{"build", std::string_view("the server was upgraded: prewarm when you deploy")},
    std::pair{"guards", std::string_view("what they say is not in the cache any more")},
};

// By how the name starts; the first that fits.
constexpr std::array kGlobals = {
    std::pair{"grad_mode", kMode},
    std::pair{"inference_mode", kMode},
    std::pair{"autocast", std::string_view("enter torch.autocast alike: device, dtype and cache_enabled all count")},
    std::pair{"default_dtype", std::string_view("call torch.set_default_dtype alike in all jobs")},
    std::pair{"deterministic", std::string_view("call torch.use_deterministic_algorithms alike in all jobs")},
    std::pair{"matmul_precision", std::string_view("call torch.set_float32_matmul_precision alike in all jobs")},
    std::pair{"functorch.", std::string_view("change torch._functorch.config alike in all jobs, or not at all")},
    std::pair{"", std::string_view("set it alike in all jobs (torch.backends)")},
};

}  // namespace

std::string AdviceForSize(int dim) {
  return absl::StrCat("mark the dimension dynamic: torch._dynamo.mark_dynamic(x, ", dim,
                      "), or compile with dynamic=True");
}

std::string AdviceForDynamic(int dim) {
  return absl::StrCat(
      "torch learns that a size varies at its second value: mark the dimension dynamic before the first call: "
      "torch._dynamo.mark_dynamic(x, ",
      dim, "), or compile with dynamic=True");
}

std::string AdviceForGlobal(const std::string& name) {
  for (const auto& [prefix, advice] : kGlobals) {
    if (absl::StartsWith(name, prefix)) return std::string(advice);
  }
  return "";
}

std::string AdviceForPart(const std::string& name) {
  for (const auto& [part, advice] : kParts) {
    if (name == part) return std::string(advice);
  }
  return std::string(kUpgraded);
}

}  // namespace kiln
