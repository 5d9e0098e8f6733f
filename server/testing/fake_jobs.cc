#include "server/testing/fake_jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cache/digest.h"
#include "compiler/artifact/abi.h"
#include "server/run_tool.h"
#include "server/status.h"
#include "server/worker_main.h"

namespace kiln {
namespace {

constexpr char kKernelPrefix[] = "kernel.";

bool Exists(const std::string& file) { return access(file.c_str(), F_OK) == 0; }

void Append(const std::string& file) {
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (fd < 0 || write(fd, "x", 1) != 1) abort();
  close(fd);
}

[[noreturn]] void Hang() {
  while (true) pause();
}

void WriteRaw(std::string_view bytes) {
  if (write(kWorkerFd, bytes.data(), bytes.size()) < 0) _exit(3);
}

void AllocateMib(int n) {
  std::vector<std::string> blocks;
  for (int i = 0; i < n; ++i) blocks.emplace_back(1 << 20, 'x');
  if (blocks.size() != static_cast<size_t>(n)) abort();
}

absl::Status RunProgram(const std::string& program) {
  const absl::StatusOr<ToolResult> result = RunTool({program}, "/");
  if (!result.ok()) return result.status();
  return result->output.empty() ? absl::OkStatus() : absl::InternalError(result->output);
}

absl::Status OpenSocket() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "socket");
  close(fd);
  return absl::OkStatus();
}

absl::Status Misbehave(const std::string& what, const std::string& arg, int number) {
  if (what == "crash") abort();
  if (what == "litter") {
    Append(absl::StrCat(getenv("TMPDIR"), "/left"));
    abort();
  }
  if (what == "hang") Hang();
  if (what == "stop") raise(SIGSTOP);
  if (what == "alloc_mib") AllocateMib(number);
  if (what == "throw") throw std::runtime_error("thrown by a fake");
  if (what == "run") return RunProgram(arg);
  if (what == "socket") return OpenSocket();
  if (what == "internal") return absl::InternalError("a fake bug");
  if (what == "crash_once" && !Exists(arg)) {
    Append(arg);
    abort();
  }
  if (what == "garbage") {
    WriteRaw(std::string_view("\x04\0\0\0\xff\xff\xff\xff", 8));
    _exit(0);
  }
  if (what == "oversized") {
    WriteRaw("\xff\xff\xff\xff");
    Hang();
  }
  if (what == "invalid") {
    absl::Status status = absl::InvalidArgumentError(absl::StrCat("nodes[", number, "]: fake"));
    SetNode(status, number);
    return status;
  }
  return absl::OkStatus();
}

// Obeys `text` if it is an instruction.
absl::Status Obey(std::string_view text) {
  constexpr std::string_view kPrefix = "fake.";
  if (text.substr(0, kPrefix.size()) != kPrefix) return absl::OkStatus();
  const std::string line(text.substr(kPrefix.size(), text.find('#') - kPrefix.size()));
  const size_t colon = line.find(':');
  const std::string what = line.substr(0, colon);
  const std::string arg = colon == std::string::npos ? "" : line.substr(colon + 1);
  int number = 0;
  if (!absl::SimpleAtoi(arg, &number)) number = 0;
  if (what == "sleep_ms") absl::SleepFor(absl::Milliseconds(number));
  if (what == "count") Append(arg);
  while (what == "wait_for" && !Exists(arg)) absl::SleepFor(absl::Milliseconds(2));
  return Misbehave(what, arg, number);
}

absl::StatusOr<v1::PlanResult> Plan(const v1::PlanJob& job) {
  v1::PlanResult result;
  v1::Artifact* artifact = result.mutable_artifact();
  artifact->set_version(kArtifactVersion);
  *artifact->mutable_target() = job.request().target();
  artifact->set_build(job.build());
  artifact->mutable_signature()->set_num_inputs(static_cast<uint32_t>(job.request().graph().inputs_size()));
  std::set<std::string> seen;
  for (const v1::OpRef& op : job.request().graph().ops()) {
    if (absl::Status s = Obey(op.name()); !s.ok()) return s;
    if (!absl::StartsWith(op.name(), kKernelPrefix) || !seen.insert(op.name()).second) continue;
    v1::KernelSource* kernel = result.add_kernels();
    kernel->set_text(op.name().substr(sizeof kKernelPrefix - 1));
    const Digest digest =
        Digest::Of(absl::StrCat(kernel->text(), "\n", job.request().target().name(), "\n", job.build()));
    kernel->set_key(digest.hash.data(), digest.hash.size());
    kernel->set_symbol(absl::StrCat("k_", digest.Hex().substr(0, 16)));
    v1::KernelRef* ref = artifact->add_kernels();
    ref->set_symbol(kernel->symbol());
    ref->set_key(kernel->key());
  }
  return result;
}

absl::StatusOr<v1::CodegenResult> Codegen(const v1::CodegenJob& job) {
  if (absl::Status s = Obey(job.kernel().text()); !s.ok()) return s;
  v1::CodegenResult result;
  const std::string with = job.libdevice().empty() ? "" : absl::StrCat(" with ", job.libdevice());
  result.set_object(absl::StrCat("object of ", job.kernel().text(), " for ", job.target(), with, "\n"));
  return result;
}

absl::StatusOr<v1::AssembleResult> Assemble(const v1::AssembleJob& job) {
  // The kernel's text is within "object of TEXT for TARGET".
  if (const size_t at = job.ptx().find("assemble_"); at != std::string::npos) {
    if (absl::Status s = Obey(absl::StrCat("fake.", job.ptx().substr(at + 9))); !s.ok()) return s;
  }
  v1::AssembleResult result;
  if (job.archs(0) != "sm_120") result.set_cubin(absl::StrCat("cubin of ", job.ptx()));
  return result;
}

absl::StatusOr<v1::LinkResult> Link(const v1::LinkJob& job) {
  v1::LinkResult result;
  for (const std::string& object : job.objects()) {
    if (absl::StrContains(object, "fake.link_crash")) abort();
    absl::StrAppend(result.mutable_shared_object(), object);
  }
  return result;
}

}  // namespace

JobFunctions FakeJobs() { return {Plan, Codegen, Link, Assemble, NodeOfStatus}; }

}  // namespace kiln
