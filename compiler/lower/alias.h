// What memory each value of a graph stands in.
#pragma once

#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/ops/op_def.h"

namespace kiln {

enum class NodeKind : uint8_t {
  kExternal,   // no meaning, or no way to compute it here: operands and results are tensors in memory
  kView,       // results are views of argument 0
  kPointwise,  // `lower`, with tensor operands
  kCreation,   // `lower`, from sizes and numbers alone (a few creations deep): reads no memory, so computed wherever it
               // is read
  kReduction,  // `reduce`
};

// By the node alone: kCreation only without tensor operands.
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
  NodeKind kind(NodeId node) const { return kinds_[node]; }

 private:
  bool IsCheapCreation(const Graph& graph, const Node& node);

  std::vector<ValueId> roots_;
  std::vector<Sym> offsets_;
  std::vector<NodeKind> kinds_;
  std::vector<uint32_t> creation_cost_;  // per node: nodes computed for an element of a creation
};

}  // namespace kiln
