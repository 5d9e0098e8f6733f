// Builds a graph in order: inputs and constants, nodes, outputs and updates.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"

namespace kiln {

// What a node carries beside its meaning. A builder gives its current one to each node it adds, so that what a
// decomposition or a derivative adds inherits from the node it comes from.
struct NodeContext {
  Phase phase = Phase::kForward;
  uint32_t recompute = 0;
  NodeId origin = kNoNode;

  static NodeContext Of(const Node& node) { return {node.phase, node.recompute, node.origin}; }
};

// Not thread-safe. A wrong call (a value not defined yet, a type whose sizes and strides differ in number) is a bug of
// the caller: the first is remembered, returned by status() and Build() as Internal, and the graph is good for nothing
// then. Build() moves the graph out and is called once.
class GraphBuilder {
 public:
  using ResultTypes = std::vector<std::optional<TensorType>>;  // nothing: the result is None

  explicit GraphBuilder(std::shared_ptr<SymContext> syms, GraphLevel level = GraphLevel::kInference);

  // A builder for a graph over the same sizes: context, classes, device, level and the joint counts as in `graph`;
  // nothing else.
  static GraphBuilder Like(const Graph& graph);
  // The same for a part of `graph` that is a graph of another level: without joint counts.
  static GraphBuilder PartOf(const Graph& graph, GraphLevel level);

  SymContext& syms() { return *graph_->syms_; }
  // As built so far; the same object until Build. References to nodes do not survive AddNode, types do.
  const Graph& graph() const { return *graph_; }

  // Declares s<index> (in order, from 0) with its range and class.
  Sym AddSize(SymRange range = {0, kSymUnbounded}, uint32_t size_class = 0);
  ValueId AddInput(TensorType type);
  // An input that binds a size. Takes a value id, which names nothing.
  void AddSymInput(Sym sym);
  // `data`: contiguous, little-endian.
  ValueId AddConstant(TensorType type, std::string data);
  // An id that names nothing.
  ValueId SkipValue();

  // The first of the results' ids, which are consecutive; kNoValue if there are none. `def` may be null: an external
  // call.
  ValueId AddNode(const OpName& op, const OpDef* def, std::vector<Arg> args, const ResultTypes& results);
  // The same operator, record and result types as `node`, a node of `from` over the same SymContext.
  ValueId AddCopy(const Graph& from, const Node& node, std::vector<Arg> args);

  // Gives a value another layout. For values that their producer can write in any.
  void SetStrides(ValueId value, std::vector<Sym> strides);

  const NodeContext& context() const { return context_; }
  void SetContext(const NodeContext& context) { context_ = context; }

  void AddOutput(ValueId value);
  void AddSymOutput(Sym sym);
  void AddNoneOutput();
  void AddUpdate(uint32_t input, ValueId value);
  void SetJointCounts(uint32_t num_primals, uint32_t num_forward_outputs);

  const absl::Status& status() const { return status_; }
  // For what writes through this builder: remembers a bug as the builder remembers its own.
  void Fail(const std::string& message);
  absl::StatusOr<std::shared_ptr<const Graph>> Build();

 private:
  ValueId NewValue(const TensorType* type, NodeId producer);
  const TensorType* Intern(TensorType type);
  uint32_t InternOp(const OpName& op);
  bool Defined(ValueId value) const { return value < graph_->num_values() && graph_->type(value) != nullptr; }

  std::shared_ptr<Graph> graph_;
  NodeContext context_;
  absl::Status status_;
  absl::flat_hash_map<TensorType, const TensorType*> types_;
  absl::flat_hash_map<OpName, uint32_t> ops_;
};

}  // namespace kiln
