#include "compiler/codegen/cpu/native_run.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cpu/link.h"
#include "compiler/codegen/cpu/machine.h"
#include "compiler/codegen/cpu/object.h"
#include "compiler/graph/type.h"
#include "compiler/loop/interp.h"
#include "compiler/loop/scalar.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"

namespace kiln {
namespace {

template <typename T>
std::string Str(T s) {
  return std::string(s);
}

// Equal, or both NaN.
bool SameElement(DType type, const uint8_t* x, const uint8_t* y) {
  const size_t size = static_cast<size_t>(ByteSize(type));
  if (std::memcmp(x, y, size) == 0) return true;
  if (!IsFloat(type)) return false;
  uint64_t a = 0, b = 0;
  std::memcpy(&a, x, size);
  std::memcpy(&b, y, size);
  return std::isnan(loop::ToDouble(type, a)) && std::isnan(loop::ToDouble(type, b));
}

template <typename T>
std::vector<uint8_t> AsBytes(const std::vector<T>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string Hex(const uint8_t* bytes, size_t size) {
  std::string out = "0x";
  for (size_t i = size; i-- > 0;) absl::StrAppend(&out, absl::Hex(bytes[i], absl::kZeroPad2));
  return out;
}

std::vector<loop::Buffer> GlobalBuffers(const loop::Kernel& kernel) {
  std::vector<loop::Buffer> result;
  for (const loop::Buffer& buffer : kernel.buffers) {
    if (buffer.space == loop::Space::kGlobal) result.push_back(buffer);
  }
  return result;
}

std::vector<GuardedMemory> CopyBuffers(const NativeCase& run, const std::vector<loop::Buffer>& buffers) {
  std::vector<GuardedMemory> memories;
  for (size_t i = 0; i < buffers.size(); ++i) {
    memories.emplace_back(run.buffers[i].size(), static_cast<size_t>(ByteSize(buffers[i].dtype)));
    if (!run.buffers[i].empty()) std::memcpy(memories[i].data(), run.buffers[i].data(), run.buffers[i].size());
  }
  return memories;
}

absl::StatusOr<int64_t> ParallelExtent(const loop::Kernel& kernel, const NativeCase& run) {
  const loop::Axis& axis = std::get<loop::For>(kernel.body[0].node).axis;
  return kernel.syms->Eval(axis.extent, [&](Var var) -> std::optional<int64_t> { return run.sizes.at(var.index); });
}

int64_t RunNative(const NativeKernel& native, const std::vector<GuardedMemory>& memories, const NativeCase& run,
                  int64_t extent) {
  std::vector<void*> pointers;
  for (const GuardedMemory& memory : memories) pointers.push_back(memory.data());
  int64_t error = 0;
  for (int64_t part = 0; part < run.splits; ++part) {
    native.function()(pointers.data(), run.sizes.data(), extent * part / run.splits, extent * (part + 1) / run.splits,
                      &error);
  }
  return error;
}

absl::Status CompareBuffers(const std::vector<loop::Buffer>& buffers, const std::vector<GuardedMemory>& got,
                            const std::vector<GuardedMemory>& want) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    const size_t size = static_cast<size_t>(ByteSize(buffers[i].dtype));
    for (size_t k = 0; k < got[i].size() / size; ++k) {
      const uint8_t* x = got[i].data() + k * size;
      const uint8_t* y = want[i].data() + k * size;
      if (SameElement(buffers[i].dtype, x, y)) continue;
      return absl::InternalError(absl::StrCat("b", i, "[", k, "] (", Str(Name(buffers[i].dtype)), ") is ", Hex(x, size),
                                              ", the interpreter has ", Hex(y, size)));
    }
  }
  return absl::OkStatus();
}

absl::Status RunCase(const loop::Kernel& kernel, const NativeKernel& native, const NativeCase& run) {
  const std::vector<loop::Buffer> buffers = GlobalBuffers(kernel);
  if (run.buffers.size() != buffers.size()) return absl::InvalidArgumentError("number of buffers");
  const std::vector<GuardedMemory> want = CopyBuffers(run, buffers);
  std::vector<loop::BufferArg> args;
  for (size_t i = 0; i < buffers.size(); ++i) {
    args.push_back({want[i].data(), static_cast<int64_t>(want[i].size()) / ByteSize(buffers[i].dtype)});
  }
  absl::StatusOr<loop::RunStats> stats = loop::Interpret(kernel, args, run.sizes);
  if (!stats.ok()) return stats.status();
  absl::StatusOr<int64_t> extent = ParallelExtent(kernel, run);
  if (!extent.ok()) return extent.status();
  const std::vector<GuardedMemory> got = CopyBuffers(run, buffers);
  const int64_t error = RunNative(native, got, run, *extent);
  if ((error == 0) != (stats->error == 0)) {
    return absl::InternalError(absl::StrCat("error word ", error, ", the interpreter has ", stats->error));
  }
  return CompareBuffers(buffers, got, want);
}

}  // namespace

// --- NativeKernel ---

absl::StatusOr<NativeKernel> NativeKernel::Load(const std::string& shared_object, const std::string& symbol) {
  const int fd = memfd_create("kernel", MFD_CLOEXEC);
  if (fd < 0 || write(fd, shared_object.data(), shared_object.size()) != static_cast<ssize_t>(shared_object.size())) {
    return absl::InternalError("memfd");
  }
  void* library = dlopen(absl::StrCat("/proc/self/fd/", fd).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    close(fd);
    return absl::InternalError(dlerror());
  }
  NativeKernel result(fd, library, reinterpret_cast<KernelFn*>(dlsym(library, symbol.c_str())));
  if (result.function() == nullptr) return absl::InternalError(dlerror());
  return result;
}

absl::StatusOr<NativeKernel> NativeKernel::Compile(const loop::Kernel& kernel, std::string_view target) {
  absl::StatusOr<std::string> object = CompileObject(kernel, "kernel", target);
  if (!object.ok()) return object.status();
  const std::string symbols[] = {"kernel"};
  absl::StatusOr<std::string> shared_object = LinkShared(std::span(&*object, 1), symbols);
  if (!shared_object.ok()) return shared_object.status();
  return Load(*shared_object, "kernel");
}

NativeKernel::NativeKernel(NativeKernel&& other) noexcept
    : fd_(other.fd_), library_(std::exchange(other.library_, nullptr)), function_(other.function_) {}

NativeKernel::~NativeKernel() {
  if (library_ == nullptr) return;
  dlclose(library_);
  close(fd_);
}

bool HostRuns(std::string_view target) {
  if (target == "x86-64-v2") return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  if (target == "x86-64-v3") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return target == "x86-64-v4" && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

// --- GuardedMemory ---

GuardedMemory::GuardedMemory(size_t bytes, size_t align) : size_(bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t used = (bytes + page - 1) / page * page;
  mapped_ = used + page;
  void* mapping = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED || mprotect(static_cast<uint8_t*>(mapping) + used, page, PROT_NONE) != 0) std::abort();
  mapping_ = static_cast<uint8_t*>(mapping);
  data_ = mapping_ + (used - bytes) / align * align;
}

GuardedMemory::GuardedMemory(GuardedMemory&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(other.mapped_),
      data_(other.data_),
      size_(other.size_) {}

GuardedMemory::~GuardedMemory() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

// --- contents ---

std::vector<uint8_t> RandomFloats(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> draw(-4, 4);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = draw(random);
  return AsBytes(values);
}

std::vector<uint8_t> RandomIntegers(int64_t count, int64_t low, int64_t high, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int64_t> draw(low, high);
  std::vector<int64_t> values(static_cast<size_t>(count));
  for (int64_t& value : values) value = draw(random);
  return AsBytes(values);
}

// --- comparison ---

absl::Status CompareWithInterpreter(const loop::Kernel& kernel, std::span<const NativeCase> cases) {
  if (absl::Status status = loop::Verify(kernel); !status.ok()) return status;
  for (const CpuMachine& machine : kCpuMachines) {
    const std::string target(machine.name);
    if (!HostRuns(target)) {
      absl::StatusOr<std::string> object = CompileObject(kernel, "kernel", target);
      if (!object.ok()) return object.status();
      continue;
    }
    absl::StatusOr<NativeKernel> native = NativeKernel::Compile(kernel, target);
    if (!native.ok())
      return absl::Status(native.status().code(), absl::StrCat(target, ": ", Str(native.status().message())));
    for (size_t i = 0; i < cases.size(); ++i) {
      absl::Status status = RunCase(kernel, *native, cases[i]);
      if (!status.ok())
        return absl::Status(status.code(), absl::StrCat(target, ", case ", i, ": ", Str(status.message())));
    }
  }
  return absl::OkStatus();
}

absl::Status CompareWithInterpreter(std::string_view text, std::span<const NativeCase> cases) {
  absl::StatusOr<loop::Kernel> kernel = loop::ParseKernel(text);
  if (!kernel.ok()) return kernel.status();
  return CompareWithInterpreter(*kernel, cases);
}

}  // namespace kiln
