// Every option of the compiler, and whether it may change an artifact.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/compile.pb.h"

namespace kiln {

enum class Precision : uint8_t { kEager = 0, kFast = 1 };

// What a request may ask for; each field enters the key.
struct Options {
  // kEager: each op's result is rounded to its own dtype before the next sees it. kFast drops that.
  Precision precision = Precision::kEager;
  // As torch's activation_memory_budget, in [0, 1]: partition/choose_saved.h.
  double memory_budget = 1.0;
};

// InvalidArgument names the field.
absl::StatusOr<Options> ImportOptions(const v1::Options& options);

enum class OptionEffect : uint8_t {
  kKey,        // changes the artifact: part of every key
  kDebugOnly,  // changes only what is checked or printed (debug/debug.h): in no key
};

struct OptionInfo {
  std::string_view name;
  OptionEffect effect;
  std::string_view meaning;
  // Canonical text of its value; null for kDebugOnly.
  std::string (*value)(const Options&);
};

// Sorted by name. A test holds it against v1::Options, so that no field is forgotten.
std::span<const OptionInfo> AllOptions();

// "memory_budget=1;precision=eager": equal for options with equal effect.
std::string CanonicalText(const Options& options);

}  // namespace kiln
