#include "compiler/graph/node_status.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

constexpr char kPayload[] = "kiln/node";

}  // namespace

absl::Status AtNode(absl::Status status, int64_t node) {
  if (!status.ok() && node >= 0 && NodeOf(status) < 0) status.SetPayload(kPayload, absl::Cord(absl::StrCat(node)));
  return status;
}

int64_t NodeOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  int64_t node = -1;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &node)) return -1;
  return node;
}

}  // namespace kiln
