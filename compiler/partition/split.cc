#include "compiler/partition/split.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compiler/graph/builder.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/registry.h"

namespace kiln {
namespace {

bool IsView(const Node& node) { return node.def != nullptr && node.def->view != nullptr; }

bool HasTensorOperand(const Node& node) {
  bool found = false;
  ForEachValue(std::span<const Arg>(node.args), [&](ValueId) { found = true; });
  return found;
}

// Made again wherever it is wanted: views, and tensors made from nothing but sizes and numbers.
bool IsFree(const Node& node) {
  return IsView(node) || (node.def != nullptr && node.def->lower != nullptr && !HasTensorOperand(node));
}

bool MustStayForward(const Graph& graph, const Node& node) {
  const Traits traits = TraitsOf(Call(graph, node));
  return node.phase == Phase::kForward && (traits.random || traits.effect);
}

// Nodes that the forward's outputs and updates need.
std::vector<bool> ForwardNodes(const Graph& joint) {
  std::vector<bool> forward(joint.nodes().size(), false);
  const auto need = [&](ValueId v) {
    if (joint.producer(v) != kNoNode) forward[joint.producer(v)] = true;
  };
  for (uint32_t i = 0; i < joint.num_forward_outputs(); ++i) {
    if (joint.outputs()[i].kind == GraphOutput::Kind::kValue) need(joint.outputs()[i].value);
  }
  for (const GraphUpdate& update : joint.updates()) need(update.value);
  for (NodeId n = static_cast<NodeId>(joint.nodes().size()); n-- > 0;) {
    const Node& node = joint.nodes()[n];
    if (MustStayForward(joint, node)) forward[n] = true;
    if (forward[n]) ForEachValue(std::span<const Arg>(node.args), need);
  }
  return forward;
}

std::vector<bool> Primals(const Graph& joint) {
  std::vector<bool> primal(joint.num_values(), false);
  for (uint32_t i = 0; i < joint.num_primals(); ++i) {
    if (joint.inputs()[i].value != kNoValue) primal[joint.inputs()[i].value] = true;
  }
  return primal;
}

// The backward's nodes: what the gradients need and is not computed forward, and the free nodes on the way to what is saved.
// Calls saved(value) for every value that has to come from the forward, and node(n) for every node, each once.
class BackwardWalk {
 public:
  explicit BackwardWalk(const Graph& joint)
      : joint_(joint), forward_(ForwardNodes(joint)), primal_(Primals(joint)), nodes_(joint.nodes().size(), false) {
    for (uint32_t i = joint.num_forward_outputs(); i < joint.outputs().size(); ++i) {
      if (joint.outputs()[i].kind == GraphOutput::Kind::kValue) Need(joint.outputs()[i].value);
    }
    for (NodeId n = static_cast<NodeId>(joint.nodes().size()); n-- > 0;) {
      if (nodes_[n]) ForEachValue(std::span<const Arg>(joint.nodes()[n].args), [&](ValueId v) { Need(v); });
    }
  }
  const std::vector<bool>& forward() const { return forward_; }
  const std::vector<bool>& backward() const { return nodes_; }
  const absl::flat_hash_set<ValueId>& saved() const { return saved_; }

 private:
  void Need(ValueId v) {
    const NodeId p = joint_.producer(v);
    if (p == kNoNode) {
      if (primal_[v]) saved_.insert(v);
    } else if (!forward_[p] || IsFree(joint_.nodes()[p])) {
      nodes_[p] = true;
    } else {
      saved_.insert(v);
    }
  }

  const Graph& joint_;
  std::vector<bool> forward_;
  std::vector<bool> primal_;
  std::vector<bool> nodes_;
  absl::flat_hash_set<ValueId> saved_;
};

class SymCollector {
 public:
  explicit SymCollector(SymContext& syms) : syms_(syms) {}
  void Add(Sym s) {
    if (!seen_.insert(s).second) return;
    for (const Var var : syms_.Variables(s)) vars_.insert(var);
  }
  void Add(const TensorType* type) {
    if (type == nullptr) return;
    for (const Sym s : type->sizes) Add(s);
    for (const Sym s : type->strides) Add(s);
  }
  void Add(std::span<const Arg> args) {
    for (const Arg& arg : args) {
      if (const Sym* s = std::get_if<Sym>(&arg.v)) Add(*s);
      if (const ArgList* list = arg.list()) Add(std::span<const Arg>(*list));
    }
  }
  std::vector<Sym> Sorted() const {
    std::vector<Var> vars(vars_.begin(), vars_.end());
    std::sort(vars.begin(), vars.end());
    std::vector<Sym> syms;
    for (const Var var : vars) syms.push_back(syms_.Size(var.index));
    return syms;
  }

 private:
  SymContext& syms_;
  absl::flat_hash_set<Sym> seen_;
  absl::flat_hash_set<Var> vars_;
};

std::vector<Sym> BackwardSyms(const Graph& joint, const BackwardWalk& walk, std::span<const ValueId> saved) {
  SymCollector syms(joint.syms());
  for (const ValueId v : saved) syms.Add(joint.type(v));
  for (uint32_t i = joint.num_primals(); i < joint.inputs().size(); ++i) {
    if (joint.inputs()[i].value != kNoValue) syms.Add(joint.type(joint.inputs()[i].value));
  }
  for (NodeId n = 0; n < joint.nodes().size(); ++n) {
    if (!walk.backward()[n]) continue;
    const Node& node = joint.nodes()[n];
    syms.Add(std::span<const Arg>(node.args));
    for (uint32_t r = 0; r < node.num_results; ++r) syms.Add(joint.type(node.first_result + r));
  }
  for (uint32_t i = joint.num_forward_outputs(); i < joint.outputs().size(); ++i) {
    if (joint.outputs()[i].kind == GraphOutput::Kind::kSym) syms.Add(joint.outputs()[i].sym);
  }
  return syms.Sorted();
}

// Copies a part of the joint graph.
class Extract {
 public:
  explicit Extract(const Graph& joint) : joint_(joint), b_(GraphBuilder::PartOf(joint, GraphLevel::kInference)) {}

  void Input(ValueId v) { map_[v] = b_.AddInput(*joint_.type(v)); }
  void Input(Sym s) { b_.AddSymInput(s); }
  void Constants() {
    for (const GraphConstant& constant : joint_.constants()) {
      map_[constant.value] = b_.AddConstant(*joint_.type(constant.value), constant.data);
    }
  }
  void Nodes(const std::vector<bool>& chosen) {
    for (NodeId n = 0; n < joint_.nodes().size(); ++n) {
      if (chosen[n]) CopyNode(joint_.nodes()[n]);
    }
  }
  void Output(const GraphOutput& out) {
    switch (out.kind) {
      case GraphOutput::Kind::kValue:
        return b_.AddOutput(map_.at(out.value));
      case GraphOutput::Kind::kSym:
        return b_.AddSymOutput(out.sym);
      case GraphOutput::Kind::kNone:
        return b_.AddNoneOutput();
    }
  }
  void OutputValue(ValueId v) { b_.AddOutput(map_.at(v)); }
  void OutputSym(Sym s) { b_.AddSymOutput(s); }
  void Update(const GraphUpdate& update) { b_.AddUpdate(update.input, map_.at(update.value)); }
  absl::StatusOr<std::shared_ptr<const Graph>> Build() { return b_.Build(); }

 private:
  void CopyNode(const Node& node) {
    std::vector<Arg> args = MapValues(std::span<const Arg>(node.args), [&](ValueId v) { return map_.at(v); });
    b_.SetContext(NodeContext::Of(node));
    const ValueId first = b_.AddCopy(joint_, node, std::move(args));
    for (uint32_t r = 0; r < node.num_results; ++r) map_[node.first_result + r] = first + r;
  }

  const Graph& joint_;
  GraphBuilder b_;
  absl::flat_hash_map<ValueId, ValueId> map_;
};

}  // namespace

absl::StatusOr<Saved> ChooseSaved(const Graph& joint) {
  const BackwardWalk walk(joint);
  Saved saved;
  saved.values.assign(walk.saved().begin(), walk.saved().end());
  std::sort(saved.values.begin(), saved.values.end());
  for (const GraphUpdate& update : joint.updates()) {
    const ValueId input = joint.inputs()[update.input].value;
    if (std::binary_search(saved.values.begin(), saved.values.end(), input)) {
      return absl::UnimplementedError(
          absl::StrCat("input ", update.input, " is written in place and its old value is needed by the backward"));
    }
  }
  saved.syms = BackwardSyms(joint, walk, saved.values);
  return saved;
}

absl::StatusOr<Split> SplitJoint(const Graph& joint, Saved saved) {
  const BackwardWalk walk(joint);
  Extract forward(joint), backward(joint);
  for (uint32_t i = 0; i < joint.num_primals(); ++i) {
    const GraphInput& input = joint.inputs()[i];
    input.value != kNoValue ? forward.Input(input.value) : forward.Input(input.sym);
  }
  forward.Constants();
  forward.Nodes(walk.forward());
  for (uint32_t i = 0; i < joint.num_forward_outputs(); ++i) forward.Output(joint.outputs()[i]);
  for (const ValueId v : saved.values) forward.OutputValue(v);
  for (const Sym s : saved.syms) forward.OutputSym(s);
  for (const GraphUpdate& update : joint.updates()) forward.Update(update);

  for (const Sym s : saved.syms) backward.Input(s);
  for (const ValueId v : saved.values) backward.Input(v);
  for (uint32_t i = joint.num_primals(); i < joint.inputs().size(); ++i) {
    const GraphInput& input = joint.inputs()[i];
    input.value != kNoValue ? backward.Input(input.value) : backward.Input(input.sym);
  }
  backward.Constants();
  backward.Nodes(walk.backward());
  for (uint32_t i = joint.num_forward_outputs(); i < joint.outputs().size(); ++i) backward.Output(joint.outputs()[i]);

  Split split;
  absl::StatusOr<std::shared_ptr<const Graph>> graph = forward.Build();
  if (!graph.ok()) return graph.status();
  split.forward = *std::move(graph);
  graph = backward.Build();
  if (!graph.ok()) return graph.status();
  split.backward = *std::move(graph);
  split.saved = std::move(saved);
  return split;
}

}  // namespace kiln
