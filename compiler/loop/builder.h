// Writes scalar statements into a block, with types checked at birth.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "compiler/loop/ir.h"
#include "compiler/loop/sharing.h"

namespace kiln::loop {

// Appends to `block` of `kernel`; both outlive it. Violations of nodes.def's type rules are our own bugs: the first one
// is remembered and returned by status() (Internal); later calls then write nothing and give kNone, and the kernel must
// be thrown away.
//
// Equal pure Lets are shared within a block and with the enclosing blocks that this builder has open. Loads are pure if
// their buffer is Access::kRead. Not thread-safe.
class Builder {
 public:
  // Knows the values that `kernel.body` and `block` define already.
  Builder(Kernel& kernel, Block& block);
  // Writes another block of the same kernel; knows the values of `other`, and `other` will know those written here.
  // Shares no Lets.
  Builder(const Builder& other, Block& block);
  ~Builder();
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  Kernel& kernel() { return kernel_; }
  SymContext& syms() { return *kernel_.syms; }
  DType TypeOf(ValueId value) const;  // f32 for a value that is not known

  ValueId Const(DType type, double value);      // rounded to `type` once
  ValueId ConstInt(DType type, int64_t value);  // wrapped to an integer `type`, rounded to a float one
  ValueId ConstBits(DType type, uint64_t bits);
  ValueId Index(Sym index);  // i64
  // `other` defaults to zero where there is a mask.
  ValueId Load(BufferId buffer, Sym index, ValueId mask = kNone, ValueId other = kNone);
  ValueId Cast(DType type, ValueId value);     // `value` itself if it has the type
  ValueId Bitcast(DType type, ValueId value);  // likewise
  ValueId Select(ValueId condition, ValueId if_true, ValueId if_false);
  ValueId Apply(Op op, std::span<const ValueId> args);
  ValueId Apply(Op op, ValueId a) { return Apply(op, std::span(&a, 1)); }
  ValueId Apply(Op op, ValueId a, ValueId b);
  ValueId Apply(Op op, ValueId a, ValueId b, ValueId c);
  // A value (i64) that may be used in a Sym: checked to be in [0, extent). `extent` names sizes only.
  Sym IndexFromValue(ValueId value, Sym extent);
  void Store(BufferId buffer, Sym index, ValueId value, ValueId mask = kNone, bool streaming = false);

  void Prefetch(BufferId buffer, Sym index);

  // Statements with bodies: Begin… makes the following go inside, End closes it.
  Sym BeginFor(AxisKind kind, Sym extent, uint32_t width = 1, Sym grain = {}, uint32_t lanes = 1);
  void EndFor();
  // init: one value a tuple element. Returns the axis. Between Begin and End everything goes into the body.
  Sym BeginReduce(AxisKind kind, Sym extent, uint32_t width, uint32_t accumulators, std::span<const ValueId> init,
                  uint32_t lanes = 1);
  void Barrier();
  // combine(builder, a, b) writes the fold of two tuples.
  using Combine = std::function<std::vector<ValueId>(Builder&, std::span<const ValueId> a, std::span<const ValueId> b)>;
  std::vector<ValueId> EndReduce(std::span<const ValueId> yields, const Combine& combine);

  // Writes a statement made elsewhere, whose operands are known here, as it is; its results become known.
  void Append(Stmt stmt);

  // While it lives, what is written has this Stmt::origin. Scopes nest.
  class OriginScope {
   public:
    OriginScope(Builder& b, uint32_t origin) : b_(b), outer_(std::exchange(b.origin_, origin)) {}
    ~OriginScope() { b_.origin_ = outer_; }
    OriginScope(const OriginScope&) = delete;
    OriginScope& operator=(const OriginScope&) = delete;

   private:
    Builder& b_;
    const uint32_t outer_;
  };

  const absl::Status& status() const { return status_; }

 private:
  struct Frame;
  struct Types;

  std::optional<DType> KnownType(ValueId value) const;
  ValueId NewValue(DType type);
  void Learn(ValueId value, DType type);
  void LearnResults(const Stmt& stmt);
  ValueId Emit(Let let);  // shares or appends; sets let.result
  Block& block();
  void Open(Stmt stmt);
  Stmt Close();
  Axis NewAxis(AxisKind kind, Sym extent, uint32_t width, Sym grain, uint32_t lanes);
  void Fail(const absl::Status& status);
  template <typename... Parts>
  bool Check(bool condition, const Parts&... parts);

  Kernel& kernel_;
  Block* block_;
  absl::Status status_;
  uint32_t origin_ = kNone;
  std::shared_ptr<Types> types_;  // shared by the builders of one kernel
  SharedLets shared_;
  std::vector<Frame> frames_;  // open statements; frames_[0] is the block given
};

}  // namespace kiln::loop
