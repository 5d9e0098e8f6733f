// The text form of a kernel: what people read, what workers exchange, and what a kernel's content key is computed from.
//
//   kernel {
//     sizes s0 in [2, inf), s1 in [0, 4096]
//     buffer b0: f32[s0*768] read
//     buffer b1: f32[s0*768] write
//     parallel i0 in 0..s0 grain 4 {
//       vector i1 in 0..768 width 16 {
//         v0: f32 = load b0[i0*768 + i1]
//         v1: f32 = const 0x1p+1
//         v2: f32 = mul v0, v1
//         store b1[i0*768 + i1] = v2
//       }
//     }
//   }
//
// Statements:
//   v3: i64 = index i0 + 1                  v4: f32 = load b0[i0] mask v2 else v1      v5: i64 = check_index v4 in s0
//   store b1[i0] = v3 mask v2               prefetch b1[i0 + 8]                        serial i2 in 0..s0 { … }
//   store b1[i0] = v3 streaming             barrier
//   reduce (v5, v6): (f32, i64) over vector i2 in 0..768 width 16 accumulators 4 init (v3, v4) {
//     …
//     yield v7, v8
//   } combine (v9, v10), (v11, v12) {
//     …
//     yield v13, v14
//   }
// Buffers are "global" unless they say "shared" or "register" before the access (read, write, readwrite). Constants:
// bools true and false, integers in decimal, floats in hexadecimal, inf, -inf, nan(0x7fc00000) with all the bits. "#"
// starts a comment. `grain` is left out where it is 0, `width` of a serial axis and one accumulator always.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/loop/ir.h"

namespace kiln::loop {

inline constexpr size_t kMaxKernelText = 16 << 20;  // bytes
inline constexpr uint32_t kMaxKernelValues = 1 << 20;
inline constexpr uint32_t kMaxKernelAxes = 1 << 16;
inline constexpr uint32_t kMaxKernelBuffers = 1 << 12;
inline constexpr uint32_t kMaxKernelSizes = 1 << 12;

// Equal kernels give equal bytes once both are normalised; ToText(ParseKernel(ToText(k))) is ToText(k). A kernel that
// is not normalised yet prints with the numbers it has, and without the ranges of its sizes if they belong to a graph.
std::string ToText(const Kernel& kernel);

// The same, and for each line the statement of `kernel` that it belongs to: of a yield and a closing brace the one
// around them; null for what comes before the statements, and the last brace.
std::string ToText(const Kernel& kernel, std::vector<const Stmt*>& lines);

// Reads what ToText wrote, or a person. Numbers are defined once and index expressions name what is declared and open,
// but the result is not verified. InvalidArgument with line and column; time and memory are bounded whatever the text.
absl::StatusOr<Kernel> ParseKernel(std::string_view text);

// Moves `kernel` into a context of its own and renumbers values, axes and sizes from 0 in the order of the text, so
// that unused ones vanish. Gives the old number of each size parameter: size i of the kernel was s(result[i]). Buffers
// stay as they are.
std::vector<uint32_t> Normalize(Kernel& kernel);

}  // namespace kiln::loop
