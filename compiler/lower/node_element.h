// What a record's `lower` sees of one element of a node's results.
#pragma once

#include <functional>

#include "compiler/graph/graph.h"
#include "compiler/loop/builder.h"
#include "compiler/lower/index.h"
#include "compiler/ops/op_def.h"

namespace kiln {

class NodeElement : public Element {
 public:
  // Gives the element of `value` at `index` in its own dtype; where `mask` (unless kNone) is false, 0 and reads
  // nothing.
  using Read = std::function<loop::ValueId(ValueId value, const Index& index, loop::ValueId mask)>;

  // Everything given outlives this. `mask`, if any, holds for every read.
  NodeElement(const Graph& graph, const Node& node, const Index& index, loop::ValueId mask, loop::Builder& b,
              Read read);

  loop::Builder& b() override { return b_; }
  const Call& call() const override { return call_; }
  std::span<const Sym> index() const override { return index_; }
  DType compute() const override { return ComputeDType(promoted_); }
  loop::ValueId operator[](size_t i) override;
  loop::ValueId At(size_t i, std::span<const Sym> index, size_t k, loop::ValueId mask) override;
  loop::ValueId Raw(size_t i, std::span<const Sym> index, size_t k) override;

 private:
  loop::ValueId Number(size_t i);
  loop::ValueId ReadOperand(size_t i, std::span<const Sym> index, size_t k, loop::ValueId mask);

  const Call call_;
  const Index& index_;
  const loop::ValueId mask_;
  loop::Builder& b_;
  const Read read_;
  const DType promoted_;
};

}  // namespace kiln
