#include "server/worker_main.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <new>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/frame.h"
#include "server/worker_sandbox.h"

namespace kiln {
namespace {

constexpr uint64_t kDefaultMemoryBytes = 4ull << 30;

uint64_t MemoryLimit(int argc, const char* const* argv) {
  const size_t prefix = strlen(kWorkerMemoryFlag);
  for (int i = 2; i < argc; ++i) {
    uint64_t bytes = 0;
    if (strncmp(argv[i], kWorkerMemoryFlag, prefix) == 0 && absl::SimpleAtoi(argv[i] + prefix, &bytes)) return bytes;
  }
  return kDefaultMemoryBytes;
}

bool Assembles(int argc, const char* const* argv) {
  for (int i = 2; i < argc; ++i) {
    if (strcmp(argv[i], kWorkerAssemblesFlag) == 0) return true;
  }
  return false;
}

void SetError(const absl::Status& status, int64_t node, v1::JobReply* reply) {
  reply->Clear();
  reply->set_code(static_cast<int>(status.code()));
  reply->set_message(std::string(status.message()));
  reply->set_node(node);
}

template <typename Result>
void Store(absl::StatusOr<Result> result, const JobFunctions& functions, Result* (v1::JobReply::*mutable_result)(),
           v1::JobReply* reply) {
  if (result.ok()) {
    *(reply->*mutable_result)() = *std::move(result);
  } else {
    SetError(result.status(), functions.node_of ? functions.node_of(result.status()) : -1, reply);
  }
}

void Dispatch(const v1::Job& job, const JobFunctions& f, bool assembles, v1::JobReply* reply) {
  if (assembles != job.has_assemble()) {
    return SetError(absl::InternalError("a job for another kind of worker"), -1, reply);
  }
  switch (job.kind_case()) {
    case v1::Job::kPlan:
      return Store(f.plan(job.plan()), f, &v1::JobReply::mutable_plan, reply);
    case v1::Job::kCodegen:
      return Store(f.codegen(job.codegen()), f, &v1::JobReply::mutable_codegen, reply);
    case v1::Job::kLink:
      return Store(f.link(job.link()), f, &v1::JobReply::mutable_link, reply);
    case v1::Job::kAssemble:
      return Store(f.assemble(job.assemble()), f, &v1::JobReply::mutable_assemble, reply);
    case v1::Job::KIND_NOT_SET:
      break;
  }
  SetError(absl::InternalError("a job without a kind"), -1, reply);
}

int Fail(const absl::Status& status) {
  fprintf(stderr, "kiln worker %d: %s\n", getpid(), status.ToString().c_str());
  return 1;
}

int Work(int argc, const char* const* argv, const JobFunctions& functions) {
  prctl(PR_SET_NAME, "kilnd-worker");
  umask(077);
  // No path in a job is relative; a daemon's folder is none of its business.
  if (chdir("/") != 0) return Fail(absl::UnavailableError("chdir"));
  signal(SIGINT, SIG_IGN);
  const bool assembles = Assembles(argc, argv);
  if (absl::Status s = EnterSandbox(MemoryLimit(argc, argv), assembles); !s.ok()) return Fail(s);
  if (absl::Status s = WriteFrame(kWorkerFd, "", absl::InfiniteFuture()); !s.ok()) return Fail(s);
  while (true) {
    const absl::StatusOr<std::string> frame = ReadFrame(kWorkerFd, absl::InfiniteFuture());
    if (absl::IsUnavailable(frame.status())) return 0;  // the parent has closed its end
    if (!frame.ok()) return Fail(frame.status());
    v1::Job job;
    if (!job.ParseFromString(*frame)) return Fail(absl::InternalError("a job that cannot be parsed"));
    v1::JobReply reply = RunJob(job, functions, assembles);
    if (reply.ByteSizeLong() > kMaxFrame) {
      SetError(absl::ResourceExhaustedError(
                   absl::StrCat("a result of ", reply.ByteSizeLong(), " bytes, the bound is ", kMaxFrame)),
               -1, &reply);
    }
    const absl::Status sent = WriteFrame(kWorkerFd, reply.SerializeAsString(), absl::InfiniteFuture());
    if (absl::IsUnavailable(sent)) return 0;
    if (!sent.ok()) return Fail(sent);
  }
}

}  // namespace

bool IsWorkerCommand(int argc, const char* const* argv) { return argc >= 2 && strcmp(argv[1], kWorkerFlag) == 0; }

v1::JobReply RunJob(const v1::Job& job, const JobFunctions& functions, bool assembles) {
  v1::JobReply reply;
  reply.set_node(-1);
  try {
    Dispatch(job, functions, assembles, &reply);
  } catch (const std::bad_alloc&) {
    SetError(absl::ResourceExhaustedError("the worker's memory limit was reached"), -1, &reply);
  } catch (const std::exception& e) {
    SetError(absl::InternalError(absl::StrCat("exception: ", e.what())), -1, &reply);
  }
  return reply;
}

void WorkerMain(int argc, const char* const* argv, const JobFunctions& functions) {
  _exit(Work(argc, argv, functions));
}

}  // namespace kiln
