// Runs a graph on host arrays, node by node: the order and the types are the graph's, each node's meaning is the
// caller's.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"

namespace kiln {

// Row-major without gaps, little-endian, whatever strides the graph gives the value.
struct HostArray {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> sizes;
  std::string data;
  friend bool operator==(const HostArray&, const HostArray&) = default;
};

// An argument or a result of a graph: None, an integer (a size), or a tensor.
using HostValue = std::variant<std::monostate, int64_t, HostArray>;

// What a node sees of a run.
class NodeRun {
 public:
  NodeRun(const Graph& graph, const Node& node, const std::vector<const HostArray*>& values,
          const std::function<std::optional<int64_t>(Var)>& size)
      : graph_(graph), node_(node), values_(values), size_(size) {}
  const Graph& graph() const { return graph_; }
  const Node& node() const { return node_; }
  // A tensor among the arguments.
  const HostArray& value(ValueId v) const { return *values_[v]; }
  absl::StatusOr<int64_t> Eval(Sym s) const { return graph_.syms().Eval(s, size_); }
  absl::StatusOr<std::vector<int64_t>> Sizes(const TensorType& type) const;

 private:
  const Graph& graph_;
  const Node& node_;
  const std::vector<const HostArray*>& values_;
  const std::function<std::optional<int64_t>(Var)>& size_;
};

// One value a result of the node; monostate for None.
using EvalNode = std::function<absl::StatusOr<std::vector<HostValue>>(const NodeRun& run)>;

struct GraphResult {
  std::vector<HostValue> outputs;  // one an output
  std::vector<HostArray> updates;  // one an update: the input's new contents
};

// `inputs`: one a graph input, tensors and integers. Sizes that no integer input binds are read off the tensors.
// InvalidArgument for inputs that do not fit their types; Internal for results of `eval` that do not. Values are freed
// after their last use.
absl::StatusOr<GraphResult> Interpret(const Graph& graph, std::span<const HostValue> inputs, const EvalNode& eval);

}  // namespace kiln
