// Writes scalar statements into a block, with constant types checked at birth.
#pragma once

#include <span>
#include <vector>

#include "compiler/loop/ir.h"

namespace kiln::loop {

// Appends to `block` of `kernel`; both outlive it. Violations of nodes.def's type rules are our own bugs: they are remembered and
// returned by status() (Internal), and the kernel must then be thrown away. Equal pure Lets in one block are shared.
class Builder {
 public:
  Builder(Kernel& kernel, Block& block) : kernel_(kernel), block_(&block) {}

  Kernel& kernel() { return kernel_; }
  SymContext& syms() { return *kernel_.syms; }
  DType TypeOf(ValueId value) const;

  ValueId Const(DType type, double value);      // rounded to `type` once
  ValueId ConstInt(DType type, int64_t value);  // wrapped to `type`
  ValueId ConstBits(DType type, uint64_t bits);
  ValueId Index(Sym index);  // i64
  ValueId Load(BufferId buffer, Sym index, ValueId mask = kNone, ValueId other = kNone);
  ValueId Cast(DType type, ValueId value);  // `value` itself if it has the type
  ValueId Bitcast(DType type, ValueId value);
  ValueId Select(ValueId condition, ValueId if_true, ValueId if_false);
  ValueId Apply(Op op, std::span<const ValueId> args);
  ValueId Apply(Op op, ValueId a) { return Apply(op, std::span(&a, 1)); }
  ValueId Apply(Op op, ValueId a, ValueId b);
  ValueId Apply(Op op, ValueId a, ValueId b, ValueId c);
  // A value that may be used in a Sym: checked to be in [0, extent).
  Sym IndexFromValue(ValueId value, Sym extent);
  void Store(BufferId buffer, Sym index, ValueId value, ValueId mask = kNone);

  // Statements with bodies: Begin… makes the following go inside, End closes it.
  Sym BeginFor(AxisKind kind, Sym extent, uint32_t width = 1, Sym grain = {});
  void EndFor();
  // init: one value a tuple element. Returns the axis. Between Begin and End everything goes into the body.
  Sym BeginReduce(AxisKind kind, Sym extent, uint32_t width, uint32_t accumulators, std::span<const ValueId> init);
  // combine(builder, a, b) writes the fold of two tuples.
  using Combine = std::function<std::vector<ValueId>(Builder&, std::span<const ValueId> a, std::span<const ValueId> b)>;
  std::vector<ValueId> EndReduce(std::span<const ValueId> yields, const Combine& combine);

  const absl::Status& status() const { return status_; }

 private:
  Kernel& kernel_;
  Block* block_;
  absl::Status status_;
  // Implementation state (open statements, value types, sharing tables) is the implementer's.
};

}  // namespace kiln::loop
