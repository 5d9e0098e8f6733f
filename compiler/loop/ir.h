// Loop IR: one kernel as a nest of axes over buffers, with scalar statements in SSA form.
//
// A kernel is judged and run the same way before and after scheduling, for every target: one text form (text.h), one
// verifier (verify.h), one interpreter (interp.h). Indices are Syms over size parameters (s), axes (i) and data values
// (v); a view is index maths, never a copy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/graph/sym.h"
#include "compiler/graph/type.h"

namespace kiln::loop {

// Scalar operations; see nodes.def for operand counts, types and meaning.
enum class Op : uint8_t {
#define KILN_LOOP_OP(id, name, arity, rule) id,
#include "compiler/loop/nodes.def"
#undef KILN_LOOP_OP
};

std::string_view Name(Op op);
std::optional<Op> OpFromName(std::string_view name);
int Arity(Op op);
// Replaced by mathlib before code generation.
constexpr bool IsFunction(Op op) { return op >= Op::kExp; }

using ValueId = uint32_t;   // dense, unique in a kernel
using BufferId = uint32_t;  // index into Kernel::buffers
using AxisId = uint32_t;    // i0, i1 …: unique in a kernel

inline constexpr uint32_t kNone = 0xffffffff;

// Bounds that the verifier and the parser enforce; walks recurse no deeper than the nest.
inline constexpr int kMaxNesting = 32;
inline constexpr uint32_t kMaxVectorWidth = 64;
inline constexpr uint32_t kMaxThreads = 1024;    // of a block
inline constexpr uint32_t kMaxThreadLanes = 16;  // of one thread
inline constexpr uint32_t kWarp = 32;            // threads that exchange values without memory
inline constexpr uint32_t kMaxAccumulators = 16;
inline constexpr int64_t kMaxScratchElements = 1 << 16;

enum class Space : uint8_t { kGlobal, kShared, kRegister };
enum class Access : uint8_t { kRead, kWrite, kReadWrite };

// Global buffers are the kernel's parameters, in order; shared and register buffers are its own scratch. Bool takes one
// byte.
struct Buffer {
  DType dtype = DType::kFloat32;
  Sym size = {};  // elements that may be addressed: [0, size)
  Space space = Space::kGlobal;
  Access access = Access::kRead;
};

// result = op(args). Constants keep their bits in `imm` (signed integers sign-extended, unsigned ones and bool
// zero-extended, floats as their own bit patterns); kIndex gives the value of `index` as i64; kLoad reads
// buffer[index], and where `mask` (a bool value) is false reads nothing and gives `other`. kCheckIndex gives args[0]
// (i64) if it lies in [0, index), else 0, and sets the error word; its `index` names sizes only. Results of kCheckIndex
// are the only values that Syms may name (VarKind::kValue).
struct Let {
  ValueId result = kNone;
  DType type = DType::kFloat32;
  Op op = Op::kConst;
  std::vector<ValueId> args = {};
  uint64_t imm = 0;
  Sym index = {};
  BufferId buffer = kNone;
  ValueId mask = kNone;
  ValueId other = kNone;
};

// buffer[index] = value, where mask (if any) is true. `streaming` hints that what is stored is too much to be in cache
// still when it is read.
struct Store {
  BufferId buffer = kNone;
  Sym index = {};
  ValueId value = kNone;
  ValueId mask = kNone;
  bool streaming = false;
};

// Asks for buffer[index] to be brought near: a hint, no access. The index may lie outside of the buffer.
struct Prefetch {
  BufferId buffer = kNone;
  Sym index = {};
};

enum class AxisKind : uint8_t {
  kSerial,
  kVector,  // `width` lanes at a time, iterations independent, tail masked; every axis inside is kSerial
  // The outermost axis, exactly one. On a CPU split by the host's parallel_for, at least `grain` iterations a thread;
  // on a GPU each iteration is a block of threads.
  kParallel,
  // As kVector, with the lanes spread over the block's threads, `lanes` neighbours each: iteration i is thread
  // i % width / lanes's. What stands outside of such axes every thread computes, and one stores.
  kThread,
};

std::string_view Name(AxisKind kind);  // "serial", "vector" …

struct Stmt;
using Block = std::vector<Stmt>;

struct Axis {
  AxisId id = 0;
  Sym extent = {};
  AxisKind kind = AxisKind::kSerial;
  // kVector: lanes, a power of two; kThread: threads of the block (a power of two, or without reductions over them whole
  // warps) times lanes of a thread.
  uint32_t width = 1;
  uint32_t lanes = 1;  // kThread: a power of two that divides width
  Sym grain = {};      // kParallel
};

struct For {
  Axis axis;
  Block body;
};

// A tuple reduction over one axis. `body` computes `yields`, the tuple of one iteration; `combine` folds two tuples a
// and b (values `a` and `b`, all bound inside it) to `combined`. Order is fixed by the axis and `accumulators`, never
// by threads: with W = width (1 if kSerial) and U = accumulators, iteration r goes to accumulator tuple r mod (W*U),
// each accumulator starts from `init` and takes its iterations in increasing order (accumulator is `a`); at the end
// accumulators fold as acc[j] = combine(acc[j], acc[j + u*W]) for u = 1 .. U-1 in turn, then by halving: h = W/2 … 1:
// acc[j] = combine(acc[j], acc[j+h]). Over a kThread axis that halving is done within each thread's lanes, then within
// each warp's threads (those of the block, if they are fewer), then over the warps. `init` must be an identity of
// combine. Results are visible after the statement, to all threads.
// `combine` may also use what was defined before the statement, but nothing of `body`.
struct Reduce {
  Axis axis;  // kSerial, kVector or kThread
  uint32_t accumulators = 1;
  std::vector<ValueId> results;
  std::vector<DType> types;
  std::vector<ValueId> init;  // values defined before the statement
  Block body;
  std::vector<ValueId> yields;
  std::vector<ValueId> a, b;
  Block combine;  // Lets only; no kLoad, kIndex or kCheckIndex
  std::vector<ValueId> combined;
};

// What the block's threads have stored, to shared buffers or global ones, they all see from here on. Between two
// barriers no thread accesses what another one stores.
struct Barrier {};

// `origin` says what the statement was written for, as a number of whoever wrote the kernel (lower/: the node of the
// graph); kNone if nobody said. Rewrites hand it on to what they put in a statement's place. It is no part of the
// program: the text leaves it out.
struct Stmt {
  std::variant<Let, Store, Prefetch, For, Reduce, Barrier> node;
  uint32_t origin = kNone;
};

// `body` is exactly one kParallel For (its extent may be 1). While a kernel is being lowered it shares the graph's
// SymContext, so that records can mix its axes with the graph's sizes; ids of values and axes are then unique in that
// context, start at `first_value` and `first_axis`, and Normalize (text.h) moves the finished kernel into a context of
// its own, numbered from 0.
struct Kernel {
  std::shared_ptr<SymContext> syms = std::make_shared<SymContext>();
  uint32_t num_sizes = 0;  // parameters s0 … s(n-1)
  std::vector<Buffer> buffers;
  Block body;
  uint32_t first_value = 0, num_values = 0;  // ids [first_value, first_value + num_values)
  uint32_t first_axis = 0, num_axes = 0;
};

// A copy with a context of its own; ids and names stay.
Kernel Clone(const Kernel& kernel);

}  // namespace kiln::loop
