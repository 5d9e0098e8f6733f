// What memory each value of a graph stands in.
#pragma once

#include <span>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/ops/op_def.h"

namespace kiln {

enum class NodeKind : uint8_t {
  kExternal,   // no meaning, or no way to compute it here: operands and results are tensors in memory
  kView,       // results are views of argument 0
  kPointwise,  // `lower`, with tensor operands
  kInlined,    // `lower`; computed wherever it is read (inline.h): creations, and what is cheaper to compute than to
               // store
  kReduction,  // `reduce`
  kOrdered,    // `order`
};

// By the node alone: kInlined only without tensor operands.
NodeKind Classify(const Graph& graph, const Node& node);

// Views resolved to the value whose memory they look into.
class Aliases {
 public:
  explicit Aliases(const Graph& graph);
  // The value itself if its producer is not a view.
  ValueId root(ValueId value) const { return roots_[value]; }
  // Element offset of a view's index 0 from its root's index 0; the view's strides are its type's.
  Sym offset(ValueId value) const { return offsets_[value]; }
  bool is_view(ValueId value) const { return roots_[value] != value; }
  std::span<const ValueId> roots() const { return roots_; }
  NodeKind kind(NodeId node) const { return kinds_[node]; }

 private:
  std::vector<ValueId> roots_;
  std::vector<Sym> offsets_;
  std::vector<NodeKind> kinds_;
};

}  // namespace kiln
