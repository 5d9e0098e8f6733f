#include "server/status.h"

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

constexpr char kCrashed[] = "kiln/crashed";
constexpr char kRetryMillis[] = "kiln/retry_millis";
constexpr char kNode[] = "kiln/node";
constexpr char kReproducer[] = "kiln/reproducer";

std::optional<int64_t> Number(const absl::Status& status, const char* name) {
  const absl::optional<absl::Cord> payload = status.GetPayload(name);
  int64_t value = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &value)) return std::nullopt;
  return value;
}

void SetNumber(absl::Status& status, const char* name, int64_t value) {
  status.SetPayload(name, absl::Cord(absl::StrCat(value)));
}

}  // namespace

absl::Status CrashedError(absl::StatusCode code, const std::string& message) {
  absl::Status status(code, message);
  status.SetPayload(kCrashed, absl::Cord());
  return status;
}

bool IsCrashed(const absl::Status& status) { return status.GetPayload(kCrashed).has_value(); }

absl::Status RefusedError(absl::StatusCode code, const std::string& message, absl::Duration wait) {
  absl::Status status(code, absl::StrCat(message, "; try again after ", absl::FormatDuration(wait)));
  SetNumber(status, kRetryMillis, absl::ToInt64Milliseconds(wait));
  return status;
}

std::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  const std::optional<int64_t> millis = Number(status, kRetryMillis);
  if (!millis) return std::nullopt;
  return absl::Milliseconds(*millis);
}

void SetNode(absl::Status& status, int64_t node) { SetNumber(status, kNode, node); }

int64_t NodeOfStatus(const absl::Status& status) { return Number(status, kNode).value_or(-1); }

void SetReproducer(absl::Status& status, const std::string& hex) { status.SetPayload(kReproducer, absl::Cord(hex)); }

std::string ReproducerOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kReproducer);
  return payload ? std::string(*payload) : std::string();
}

}  // namespace kiln
