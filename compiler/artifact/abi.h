// The boundary between a generated shared object and its host, libkiln: one C signature, nothing to link against.
#pragma once

#include <cstdint>

namespace kiln {

// Part of every Target: changed whenever anything in this file changes.
inline constexpr uint32_t kKilnAbi = 1;
inline constexpr uint32_t kArtifactVersion = 3;
inline constexpr uint32_t kProtocolVersion = 1;

// Runs iterations [begin, end) of the kernel's parallel axis; the host splits [0, extent) among threads in any way.
//   buffers  one pointer a kGlobal buffer, in order, to the element of index 0; aligned to the element only
//   sizes    one int64 a size parameter
//   error    a word shared by all threads, 0 until a bad index is met (then 1 + the failing check's number); never
//   reset by a kernel
// Allocates nothing, calls nothing, throws nothing; safe to run from several threads over disjoint ranges.
using KernelFn = void(void* const* buffers, const int64_t* sizes, int64_t begin, int64_t end, int64_t* error);

}  // namespace kiln
