// Judges a kernel by the invariants of loop IR.
#pragma once

#include "absl/status/status.h"
#include "compiler/loop/ir.h"

namespace kiln::loop {

// InvalidArgument that names the statement if one of these is broken (test: verify_test.cc). Near-linear; for
// normalised kernels.
//
// Shape
//  1. The body is one kParallel For, and no other axis is parallel; its extent and grain name sizes only.
//  2. Nests are at most kMaxNesting deep; the bounds of text.h hold.
//  3. Every axis inside a kVector or kThread axis is kSerial; no kernel has axes of both kinds. The axis of a Reduce is
//     not kParallel. No barrier is inside a kVector or kThread axis.
//  4. A kVector axis is a power of two wide, at most kMaxVectorWidth. A kThread axis has a power of two of lanes, at
//  most
//     kMaxThreadLanes, and of threads, at most kMaxThreads, the same number throughout the kernel. Others have width 1.
//     Only kParallel has a
//  grain. A Reduce has
//     1 … kMaxAccumulators accumulators.
//  5. A combine block holds Lets only, none of them kLoad, kIndex or kCheckIndex.
// Buffers
//  6. Buffers have loop types (scalar.h) and sizes that name sizes only; those of shared and register buffers are
//  constant.
// Names
//  7. Values and axes lie in the kernel's ranges; each is defined once.
//  8. A value is used where it is defined: behind its definition, in the same block or one inside it. The values of a
//  Reduce's body are
//     not visible in its combine block, nor behind it; `a` and `b` only in the combine block; `results` behind the
//     statement.
//  9. Index expressions name declared sizes, axes that are open there, and visible results of kCheckIndex. An axis'
//  extent names no
//     values; the bound of a kCheckIndex names sizes only; both agree with what the kernel's SymContext says of the
//     variable.
// Types
// 10. The rules of nodes.def and typing.h; masks are bools, `mask` and `other` of a load come together, kNone stands
// nowhere else.
// 11. init, yields, combined, a, b, results of a Reduce are as many as its types (one at least), and have them.
//
// Not judged: that accesses are in bounds (the lowering proves it, the interpreter checks it), that iterations of
// parallel and vector axes are independent, that init is an identity of combine.
absl::Status Verify(const Kernel& kernel);

}  // namespace kiln::loop
