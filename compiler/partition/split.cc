#include "compiler/partition/split.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compiler/graph/builder.h"
#include "compiler/partition/roles.h"

namespace kiln {
namespace {

// What each side computes, given what is saved.
class Sides {
 public:
  Sides(const Graph& joint, const Roles& roles, std::span<const ValueId> saved)
      : joint_(joint),
        saved_(joint.num_values()),
        used_(joint.num_values()),
        forward_(joint.nodes().size()),
        backward_(joint.nodes().size()) {
    for (const ValueId v : saved) {
      saved_[v] = true;
      NeedForward(v);
    }
    WalkForward(roles);
    WalkBackward(roles);
  }
  // Per node.
  const std::vector<bool>& forward() const { return forward_; }
  const std::vector<bool>& backward() const { return backward_; }
  bool IsUsed(ValueId saved) const { return used_[saved]; }
  // A value that the backward reads and has not got: kNoValue if all is well.
  ValueId missing() const { return missing_; }

 private:
  void NeedForward(ValueId v) {
    if (joint_.producer(v) != kNoNode) forward_[joint_.producer(v)] = true;
  }

  void WalkForward(const Roles& roles) {
    for (auto n = static_cast<NodeId>(forward_.size()); n-- > 0;) {
      if (roles.forward[n]) forward_[n] = true;
      if (!forward_[n]) continue;
      ForEachValue(std::span<const Arg>(joint_.nodes()[n].args), [&](ValueId v) { NeedForward(v); });
    }
  }

  void NeedBackward(ValueId v) {
    if (saved_[v]) {
      used_[v] = true;
    } else if (joint_.producer(v) != kNoNode) {
      backward_[joint_.producer(v)] = true;
    } else if (primal_[v]) {
      missing_ = v;
    }
  }

  void WalkBackward(const Roles& roles) {
    for (const GraphOutput& out : joint_.outputs().subspan(joint_.num_forward_outputs())) {
      if (out.kind == GraphOutput::Kind::kValue) NeedBackward(out.value);
    }
    for (auto n = static_cast<NodeId>(backward_.size()); n-- > 0;) {
      if (roles.backward[n] && roles.bound[n]) backward_[n] = true;
      if (!backward_[n]) continue;
      ForEachValue(std::span<const Arg>(joint_.nodes()[n].args), [&](ValueId v) { NeedBackward(v); });
    }
  }

  const Graph& joint_;
  const std::vector<bool> primal_ = Primals(joint_);
  std::vector<bool> saved_, used_;  // per value
  std::vector<bool> forward_, backward_;
  ValueId missing_ = kNoValue;
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

std::vector<Sym> BackwardSyms(const Graph& joint, const Sides& sides, std::span<const ValueId> saved) {
  SymCollector syms(joint.syms());
  for (const ValueId v : saved) syms.Add(joint.type(v));
  for (uint32_t i = joint.num_primals(); i < joint.inputs().size(); ++i) {
    if (joint.inputs()[i].value != kNoValue) syms.Add(joint.type(joint.inputs()[i].value));
  }
  for (NodeId n = 0; n < joint.nodes().size(); ++n) {
    if (!sides.backward()[n]) continue;
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
  void Inputs(std::span<const GraphInput> inputs) {
    for (const GraphInput& input : inputs) input.value != kNoValue ? Input(input.value) : Input(input.sym);
  }
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

absl::StatusOr<std::shared_ptr<const Graph>> Forward(const Graph& joint, const Sides& sides, const Saved& saved) {
  Extract forward(joint);
  forward.Inputs(joint.inputs().first(joint.num_primals()));
  forward.Constants();
  forward.Nodes(sides.forward());
  for (uint32_t i = 0; i < joint.num_forward_outputs(); ++i) forward.Output(joint.outputs()[i]);
  for (const ValueId v : saved.values) forward.OutputValue(v);
  for (const Sym s : saved.syms) forward.OutputSym(s);
  for (const GraphUpdate& update : joint.updates()) forward.Update(update);
  return forward.Build();
}

absl::StatusOr<std::shared_ptr<const Graph>> Backward(const Graph& joint, const Sides& sides, const Saved& saved) {
  Extract backward(joint);
  for (const Sym s : saved.syms) backward.Input(s);
  for (const ValueId v : saved.values) backward.Input(v);
  backward.Inputs(joint.inputs().subspan(joint.num_primals()));
  backward.Constants();
  backward.Nodes(sides.backward());
  for (uint32_t i = joint.num_forward_outputs(); i < joint.outputs().size(); ++i) backward.Output(joint.outputs()[i]);
  return backward.Build();
}

}  // namespace

absl::StatusOr<Split> SplitJoint(const Graph& joint, std::span<const ValueId> values) {
  absl::StatusOr<Roles> roles = FindRoles(joint);
  if (!roles.ok()) return roles.status();
  const Sides sides(joint, *roles, values);
  if (sides.missing() != kNoValue) {
    return absl::InternalError(absl::StrCat("the backward reads value ", sides.missing(), ", which is not saved"));
  }
  Split split;
  for (const ValueId v : values) {
    if (sides.IsUsed(v)) split.saved.values.push_back(v);
  }
  split.saved.syms = BackwardSyms(joint, sides, split.saved.values);
  absl::StatusOr<std::shared_ptr<const Graph>> graph = Forward(joint, sides, split.saved);
  if (!graph.ok()) return graph.status();
  split.forward = *std::move(graph);
  graph = Backward(joint, sides, split.saved);
  if (!graph.ok()) return graph.status();
  split.backward = *std::move(graph);
  return split;
}

}  // namespace kiln
