// What workers run: pure functions, from bytes to bytes. The real ones are the compiler's and assemble.h's; tests put
// others in their place.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "proto/jobs.pb.h"

namespace kiln {

struct JobFunctions {
  std::function<absl::StatusOr<v1::PlanResult>(const v1::PlanJob&)> plan;
  std::function<absl::StatusOr<v1::CodegenResult>(const v1::CodegenJob&)> codegen;
  std::function<absl::StatusOr<v1::LinkResult>(const v1::LinkJob&)> link;
  std::function<absl::StatusOr<v1::AssembleResult>(const v1::AssembleJob&)> assemble;  // in workers of its own
  // The node of the request's graph that an error is about; -1: none.
  std::function<int64_t(const absl::Status&)> node_of;
};

}  // namespace kiln
