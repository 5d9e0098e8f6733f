#include "server/worker_sandbox.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KILN_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KILN_SANITIZED 1
#endif

constexpr rlim_t kStackBytes = 64 << 20;
constexpr rlim_t kDescriptors = 256;

absl::Status Failed(const char* what) { return absl::UnavailableError(absl::StrCat(what, ": ", strerror(errno))); }

// Lowers the limit for good, or raises the soft one as far as the hard one allows.
absl::Status SetLimit(decltype(RLIMIT_AS) resource, rlim_t want, const char* what) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return Failed(what);
  limit.rlim_cur = limit.rlim_max = std::min(limit.rlim_max, want);
  return setrlimit(resource, &limit) == 0 ? absl::OkStatus() : Failed(what);
}

absl::Status SetLimits([[maybe_unused]] uint64_t memory_bytes) {
  absl::Status s = SetLimit(RLIMIT_CORE, 0, "RLIMIT_CORE");
  if (s.ok()) s = SetLimit(RLIMIT_STACK, kStackBytes, "RLIMIT_STACK");
  if (s.ok()) s = SetLimit(RLIMIT_NOFILE, kDescriptors, "RLIMIT_NOFILE");
#ifndef KILN_SANITIZED
  if (s.ok()) s = SetLimit(RLIMIT_AS, memory_bytes, "RLIMIT_AS");
#endif
  return s;
}

#if defined(__x86_64__)

constexpr uint32_t kX32Bit = 0x40000000;  // the other ABI's numbers, which would pass a filter by number

const std::vector<uint32_t>& Forbidden() {
  static const auto* const kForbidden = new std::vector<uint32_t>{SYS_socket,
                                                                  SYS_connect,
                                                                  SYS_bind,
                                                                  SYS_listen,
                                                                  SYS_accept,
                                                                  SYS_accept4,
                                                                  SYS_execve,
                                                                  SYS_execveat,
                                                                  SYS_ptrace,
                                                                  SYS_kill,
                                                                  SYS_process_vm_readv,
                                                                  SYS_mount,
                                                                  SYS_umount2,
                                                                  SYS_pivot_root,
                                                                  SYS_chroot,
                                                                  SYS_process_vm_writev,
                                                                  SYS_unshare,
                                                                  SYS_setns,
                                                                  SYS_keyctl,
                                                                  SYS_add_key,
                                                                  SYS_request_key,
                                                                  SYS_bpf,
                                                                  SYS_userfaultfd,
                                                                  SYS_kexec_load,
                                                                  SYS_init_module,
                                                                  SYS_finit_module,
                                                                  SYS_io_uring_setup,
                                                                  SYS_perf_event_open,
                                                                  SYS_open_by_handle_at};
  return *kForbidden;
}

sock_filter Statement(uint16_t code, uint32_t k) { return BPF_STMT(code, k); }
sock_filter Jump(uint16_t code, uint32_t k, uint8_t yes, uint8_t no) { return BPF_JUMP(code, k, yes, no); }

void FilterSyscalls(bool may_exec) {
  const uint32_t refuse = SECCOMP_RET_ERRNO | EPERM;
  std::vector<sock_filter> code = {
      Statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      Jump(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      Statement(BPF_RET | BPF_K, refuse),
      Statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      Jump(BPF_JMP | BPF_JGE | BPF_K, kX32Bit, 0, 1),
      Statement(BPF_RET | BPF_K, refuse),
  };
  for (const uint32_t number : Forbidden()) {
    if (may_exec && number == SYS_execve) continue;
    code.push_back(Jump(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
    code.push_back(Statement(BPF_RET | BPF_K, refuse));
  }
  code.push_back(Statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

#else

void FilterSyscalls(bool) {}

#endif

}  // namespace

absl::Status EnterSandbox(uint64_t memory_bytes, bool may_exec) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return Failed("PR_SET_PDEATHSIG");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Failed("PR_SET_NO_NEW_PRIVS");
  setsid();  // fails only where it is a session of its own already
  if (absl::Status s = SetLimits(memory_bytes); !s.ok()) return s;
  FilterSyscalls(may_exec);
  return absl::OkStatus();
}

}  // namespace kiln
