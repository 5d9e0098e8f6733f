// The compiler: three pure functions from message to message, each one job of a worker process. The same job gives the
// same bytes, in any process and any order; the times that KILN_TIME asks for come beside them.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "compiler/debug/times.h"
#include "proto/jobs.pb.h"

namespace kiln {

struct CompileContext {
  // Asked now and then; true: give up with Cancelled.
  std::function<bool()> cancelled = nullptr;
};

// A report of KILN_TIME, for another process.
void WriteTimes(const StageTimes& times, google::protobuf::RepeatedPtrField<v1::StageTime>& out);

// Import, passes, partition, fusion, schedules, memory: everything but machine code. InvalidArgument and
// ResourceExhausted for bad requests; Unimplemented for graphs that kiln can't compile; Internal for its own bugs. An
// error that is about a node of the request's graph names it (graph/node_status.h).
absl::StatusOr<v1::PlanResult> Plan(const v1::PlanJob& job, const CompileContext& context = {});
absl::StatusOr<v1::CodegenResult> Codegen(const v1::CodegenJob& job);
absl::StatusOr<v1::LinkResult> Link(const v1::LinkJob& job);

// The three in one process, for tests and tools: a finished artifact (signature and key parts empty) and its shared
// object.
struct Compiled {
  v1::Artifact artifact;
  std::string shared_object;
  std::vector<v1::KernelSource> kernels;
};
absl::StatusOr<Compiled> Compile(const v1::CompileRequest& request, const std::string& build = "test");

}  // namespace kiln
