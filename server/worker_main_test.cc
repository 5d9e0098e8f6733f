#include "server/worker_main.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace kiln {
namespace {

v1::Job CodegenJob() {
  v1::Job job;
  job.mutable_codegen()->set_target("x86-64-v3");
  return job;
}

// Runs a codegen job whose function is `f`.
v1::JobReply Answer(std::function<absl::StatusOr<v1::CodegenResult>(const v1::CodegenJob&)> f) {
  JobFunctions functions;
  functions.codegen = std::move(f);
  functions.node_of = [](const absl::Status&) { return 5; };
  return RunJob(CodegenJob(), functions);
}

TEST(RunJobs, AResultIsTheReply) {
  const v1::JobReply r = Answer([](const v1::CodegenJob& job) {
    v1::CodegenResult result;
    result.set_object("for " + job.target());
    return result;
  });
  EXPECT_EQ(r.code(), 0);
  EXPECT_EQ(r.node(), -1);
  EXPECT_EQ(r.codegen().object(), "for x86-64-v3");
}

TEST(RunJobs, AnErrorKeepsCodeMessageAndNode) {
  const v1::JobReply r = Answer([](const v1::CodegenJob&) { return absl::InvalidArgumentError("bad dtype"); });
  EXPECT_EQ(r.code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(r.message(), "bad dtype");
  EXPECT_EQ(r.node(), 5);
  EXPECT_EQ(r.kind_case(), v1::JobReply::KIND_NOT_SET);
}

TEST(RunJobs, ExceptionsAreAnswers) {
  const v1::JobReply memory =
      Answer([](const v1::CodegenJob&) -> absl::StatusOr<v1::CodegenResult> { throw std::bad_alloc(); });
  EXPECT_EQ(memory.code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
  const v1::JobReply other =
      Answer([](const v1::CodegenJob&) -> absl::StatusOr<v1::CodegenResult> { throw std::runtime_error("oops"); });
  EXPECT_EQ(other.code(), static_cast<int>(absl::StatusCode::kInternal));
  EXPECT_EQ(other.message(), "exception: oops");
}

TEST(RunJobs, AJobWithoutAKind) { EXPECT_EQ(RunJob({}, {}).code(), static_cast<int>(absl::StatusCode::kInternal)); }

TEST(RunJobs, AssemblingIsForWorkersOfItsOwn) {
  JobFunctions functions;
  functions.codegen = [](const v1::CodegenJob&) { return v1::CodegenResult(); };
  functions.assemble = [](const v1::AssembleJob&) { return v1::AssembleResult(); };
  v1::Job assemble;
  assemble.mutable_assemble();
  EXPECT_EQ(RunJob(assemble, functions, /*assembles=*/true).code(), 0);
  EXPECT_EQ(RunJob(CodegenJob(), functions).code(), 0);
  EXPECT_EQ(RunJob(assemble, functions).message(), "a job for another kind of worker");
  EXPECT_EQ(RunJob(CodegenJob(), functions, /*assembles=*/true).message(), "a job for another kind of worker");
}

TEST(WorkerCommand, IsToldByItsFirstArgument) {
  const char* worker[] = {"kilnd", "--worker", "--memory-bytes=5"};
  EXPECT_TRUE(IsWorkerCommand(3, worker));
  const char* daemon[] = {"kilnd", "--config=x", "--worker"};
  EXPECT_FALSE(IsWorkerCommand(3, daemon));
  EXPECT_FALSE(IsWorkerCommand(1, daemon));
}

}  // namespace
}  // namespace kiln
