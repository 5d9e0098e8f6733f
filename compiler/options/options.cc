#include "compiler/options/options.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace kiln {
namespace {

std::string PrecisionText(const Options& options) { return options.precision == Precision::kFast ? "fast" : "eager"; }
std::string BudgetText(const Options& options) { return absl::StrFormat("%.17g", options.memory_budget); }

constexpr OptionInfo kOptions[] = {
    {"KILN_DUMP", OptionEffect::kDebugOnly, "print the program after passes", nullptr},
    {"KILN_DUMP_DIR", OptionEffect::kDebugOnly, "where dumps go", nullptr},
    {"KILN_TIME", OptionEffect::kDebugOnly, "report the time of each pass", nullptr},
    {"KILN_VERIFY", OptionEffect::kDebugOnly, "check the program after each pass", nullptr},
    {"memory_budget", OptionEffect::kKey, "share of activation memory that a backward may keep", BudgetText},
    {"precision", OptionEffect::kKey, "eager: round after every op; fast: do not", PrecisionText},
};

}  // namespace

std::span<const OptionInfo> AllOptions() { return kOptions; }

absl::StatusOr<Options> ImportOptions(const v1::Options& options) {
  Options out;
  if (!v1::Options::Precision_IsValid(options.precision())) {
    return absl::InvalidArgumentError(
        absl::StrCat("options.precision: unknown value ", static_cast<int>(options.precision())));
  }
  out.precision = static_cast<Precision>(options.precision());
  if (options.has_memory_budget()) {
    const double budget = options.memory_budget();
    if (!(budget >= 0 && budget <= 1)) {
      return absl::InvalidArgumentError(absl::StrCat("options.memory_budget: ", budget, " is not in [0, 1]"));
    }
    out.memory_budget = budget == 0 ? 0 : budget;  // zero has no sign
  }
  return out;
}

std::string CanonicalText(const Options& options) {
  std::string text;
  for (const OptionInfo& option : AllOptions()) {
    if (option.effect != OptionEffect::kKey) continue;
    absl::StrAppend(&text, text.empty() ? "" : ";", std::string(option.name), "=", option.value(options));
  }
  return text;
}

}  // namespace kiln
