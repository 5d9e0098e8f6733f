// Graph IR: functional SSA over tensors. A flat list of nodes in execution order, 32-bit value ids, interned types.
//
// Built once by GraphBuilder (builder.h) or the importer, then immutable and shared as shared_ptr<const Graph>.
// Everything is deterministic: two graphs built by the same calls print the same text (text.h).
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/graph/sym.h"
#include "compiler/graph/type.h"

namespace kiln {

struct OpDef;  // compiler/ops/op_def.h; null for an operator without a record, which runs as an external call

using ValueId = uint32_t;
using NodeId = uint32_t;
inline constexpr uint32_t kNoValue = 0xffffffff;
inline constexpr uint32_t kNoNode = 0xffffffff;

struct TensorType {
  DType dtype = DType::kFloat32;
  DeviceType device = DeviceType::kCpu;
  std::vector<Sym> sizes;
  std::vector<Sym> strides;  // in elements; the layout the value must have where it is materialised
  int rank() const { return static_cast<int>(sizes.size()); }
  friend bool operator==(const TensorType&, const TensorType&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const TensorType& t) {
    return H::combine(std::move(h), t.dtype, t.device, t.sizes, t.strides);
  }
};

// A reference to a tensor among a node's arguments.
struct ValueRef {
  ValueId id = kNoValue;
  friend bool operator==(ValueRef, ValueRef) = default;
};
enum class Layout : uint8_t { kStrided = 0 };
enum class MemoryFormat : uint8_t { kContiguous = 0, kPreserve = 1, kChannelsLast = 2, kChannelsLast3d = 3 };

// One argument, in schema order. Every integer, fixed or symbolic, is a Sym. Lists hold no lists.
struct Arg;
using ArgList = std::vector<Arg>;
struct Arg {
  std::variant<std::monostate, ValueRef, Sym, double, bool, std::string, DType, DeviceType, Layout, MemoryFormat,
               ArgList>
      v;

  bool is_none() const { return std::holds_alternative<std::monostate>(v); }
  bool is_value() const { return std::holds_alternative<ValueRef>(v); }
  const ArgList* list() const { return std::get_if<ArgList>(&v); }
  // Floats are equal if their bits are.
  friend bool operator==(const Arg& a, const Arg& b) {
    const double* x = std::get_if<double>(&a.v);
    const double* y = std::get_if<double>(&b.v);
    return x && y ? std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y) : a.v == b.v;
  }
};

enum class Phase : uint8_t { kForward, kBackward };

// The operator as the client named it, or a record's own name for nodes that the compiler made.
struct OpName {
  std::string name;  // "aten.add.Tensor" or "add"
  std::string schema;
  friend bool operator==(const OpName&, const OpName&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const OpName& op) {
    return H::combine(std::move(h), op.name, op.schema);
  }
};

struct Node {
  const OpDef* def = nullptr;
  uint32_t op = 0;  // index into Graph::ops()
  std::vector<Arg> args;
  ValueId first_result = kNoValue;
  uint32_t num_results = 0;
  Phase phase = Phase::kForward;
  uint32_t recompute = 0;   // as kiln.v1.Node
  NodeId origin = kNoNode;  // node of the request's graph that this one comes from, for messages
  friend bool operator==(const Node&, const Node&) = default;
};

struct GraphInput {
  ValueId value = kNoValue;  // a tensor, or
  Sym sym;                   // where value is kNoValue: a size variable bound by this input
  friend bool operator==(const GraphInput&, const GraphInput&) = default;
};

struct GraphOutput {
  enum class Kind : uint8_t { kValue, kSym, kNone };
  Kind kind = Kind::kNone;
  ValueId value = kNoValue;
  Sym sym;
  friend bool operator==(const GraphOutput&, const GraphOutput&) = default;
};

// `value` is to be written into input number `input` (a position in Graph::inputs()) after every read of its old
// contents.
struct GraphUpdate {
  uint32_t input = 0;
  ValueId value = kNoValue;
  friend bool operator==(const GraphUpdate&, const GraphUpdate&) = default;
};

struct GraphConstant {
  ValueId value = kNoValue;
  std::string data;  // contiguous, little-endian
  friend bool operator==(const GraphConstant&, const GraphConstant&) = default;
};

enum class GraphLevel : uint8_t { kTorch = 1, kJoint = 2, kInference = 3 };

class Graph {
 public:
  // Fields are set by GraphBuilder and never again.
  SymContext& syms() const { return *syms_; }  // interning only adds
  std::shared_ptr<SymContext> shared_syms() const { return syms_; }
  GraphLevel level() const { return level_; }
  std::span<const OpName> ops() const { return ops_; }
  std::span<const GraphInput> inputs() const { return inputs_; }
  std::span<const GraphConstant> constants() const { return constants_; }
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const GraphOutput> outputs() const { return outputs_; }
  std::span<const GraphUpdate> updates() const { return updates_; }
  // Value ids are below this. An imported graph keeps the request's ids, so some name nothing: those of size inputs and
  // of nodes that became updates.
  uint32_t num_values() const { return static_cast<uint32_t>(value_types_.size()); }
  // Null for a result that is None, and for an id that names nothing.
  const TensorType* type(ValueId value) const { return value_types_[value]; }
  NodeId producer(ValueId value) const { return producers_[value]; }  // kNoNode for inputs and constants
  const OpName& op_name(const Node& node) const { return ops_[node.op]; }
  // The device that its code is generated for: a GPU if any of its tensors is there. What is computed elsewhere (in a
  // GPU's graph, on the host) is left to the client's torch.
  DeviceType device() const { return device_; }
  // Joint graphs: inputs [0, num_primals) are primals, the rest tangents; outputs [0, num_forward_outputs) the
  // forward's.
  uint32_t num_primals() const { return num_primals_; }
  uint32_t num_forward_outputs() const { return num_forward_outputs_; }
  // Of size variable s<index>: 1 + floor(log2(hint)), 0 if unknown. For cost models and keys; never a fact.
  uint32_t size_class(uint32_t index) const { return index < size_classes_.size() ? size_classes_[index] : 0; }
  // Number of size variables: all of s0 … s(n-1) are declared.
  uint32_t num_sizes() const { return static_cast<uint32_t>(size_classes_.size()); }

 private:
  friend class GraphBuilder;
  std::shared_ptr<SymContext> syms_;
  std::vector<uint32_t> size_classes_;
  GraphLevel level_ = GraphLevel::kInference;
  DeviceType device_ = DeviceType::kCpu;
  std::vector<OpName> ops_;
  std::vector<std::unique_ptr<const TensorType>> types_;  // interned
  std::vector<const TensorType*> value_types_;
  std::vector<NodeId> producers_;
  std::vector<GraphInput> inputs_;
  std::vector<GraphConstant> constants_;
  std::vector<Node> nodes_;
  std::vector<GraphOutput> outputs_;
  std::vector<GraphUpdate> updates_;
  uint32_t num_primals_ = 0;
  uint32_t num_forward_outputs_ = 0;
};

// Whether two graphs over one SymContext are the same: names, types, arguments, everything but the numbering of
// interned types.
bool SameGraph(const Graph& a, const Graph& b);

// Strides of a dense row-major tensor as text.h leaves them out: suffix products of the sizes.
std::vector<Sym> RowMajorStrides(SymContext& syms, std::span<const Sym> sizes);

// Calls `f(ValueId)` for every tensor among the arguments, lists included, in order.
template <typename F>
void ForEachValue(std::span<const Arg> args, F&& f) {
  for (const Arg& arg : args) {
    if (const auto* ref = std::get_if<ValueRef>(&arg.v)) f(ref->id);
    if (const auto* list = arg.list()) ForEachValue(std::span<const Arg>(*list), f);
  }
}

// The arguments with every tensor replaced by `f(ValueId)`.
template <typename F>
std::vector<Arg> MapValues(std::span<const Arg> args, F&& f) {
  std::vector<Arg> out(args.begin(), args.end());
  for (Arg& arg : out) {
    if (auto* ref = std::get_if<ValueRef>(&arg.v)) ref->id = f(ref->id);
    if (auto* list = std::get_if<ArgList>(&arg.v)) *list = MapValues(std::span<const Arg>(*list), f);
  }
  return out;
}

}  // namespace kiln
