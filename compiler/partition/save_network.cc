#include "compiler/partition/save_network.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

constexpr uint32_t kNoVertex = 0xffffffff;
constexpr uint32_t kSource = 0, kSink = 1;

bool IsNeverSaved(Recompute rule) { return rule == Recompute::kFree || rule == Recompute::kAsked; }

}  // namespace

SaveNetwork::SaveNetwork(const Graph& joint, const Roles& roles, std::span<const Recompute> rules,
                         const std::vector<bool>& static_inputs)
    : joint_(joint),
      roles_(roles),
      rules_(rules),
      sizes_(joint),
      network_(2),
      primal_(Primals(joint)),
      live_(joint.nodes().size()),
      node_vertex_(joint.nodes().size(), kNoVertex),
      value_vertex_(joint.num_values(), kNoVertex) {
  AddGradients();
  for (auto n = static_cast<NodeId>(joint.nodes().size()); n-- > 0;) AddNode(n);
  AddPrimals(static_inputs);
}

std::vector<NodeId> SaveNetwork::Costly() const {
  std::vector<NodeId> costly;
  for (NodeId n = 0; n < node_vertex_.size(); ++n) {
    if (node_vertex_[n] != kNoVertex && rules_[n] == Recompute::kCosts) costly.push_back(n);
  }
  return costly;
}

absl::StatusOr<SavedSet> SaveNetwork::Cut(std::span<const NodeId> kept) const {
  FlowNetwork network = network_;
  for (const NodeId n : kept) network.AddEdge(kSource, node_vertex_[n], kInfiniteCapacity);
  const MinCut cut = network.Solve(kSource, kSink);
  if (cut.value >= kInfiniteCapacity) return NoCut();
  SavedSet saved{cut.value, {}};
  for (ValueId v = 0; v < value_vertex_.size(); ++v) {
    if (value_vertex_[v] == kNoVertex || !cut.sink_side[value_vertex_[v]]) continue;
    const NodeId p = joint_.producer(v);
    if (p == kNoNode || !cut.sink_side[node_vertex_[p]]) saved.values.push_back(v);
  }
  return saved;
}

void SaveNetwork::AddGradients() {
  for (const GraphOutput& out : joint_.outputs().subspan(joint_.num_forward_outputs())) {
    if (out.kind == GraphOutput::Kind::kValue) ReadInBackward(out.value);
  }
}

// Readers come before what they read.
void SaveNetwork::AddNode(NodeId n) {
  const Node& node = joint_.nodes()[n];
  const std::span<const Arg> args(node.args);
  if (roles_.backward[n]) {
    if (live_[n] || roles_.bound[n]) ForEachValue(args, [&](ValueId v) { ReadInBackward(v); });
    return;
  }
  const uint32_t vertex = node_vertex_[n];
  if (vertex == kNoVertex) return;
  if (rules_[n] == Recompute::kNever) network_.AddEdge(kSource, vertex, kInfiniteCapacity);
  for (uint32_t r = 0; r < node.num_results; ++r) {
    const ValueId v = node.first_result + r;
    if (value_vertex_[v] == kNoVertex) continue;
    network_.AddEdge(vertex, value_vertex_[v], IsNeverSaved(rules_[n]) ? kInfiniteCapacity : sizes_.Bytes(v));
  }
  ForEachValue(args, [&](ValueId v) { Connect(v, vertex); });
}

void SaveNetwork::AddPrimals(const std::vector<bool>& static_inputs) {
  std::vector<bool> written(joint_.inputs().size());
  for (const GraphUpdate& update : joint_.updates()) written[update.input] = true;
  for (uint32_t i = 0; i < joint_.num_primals(); ++i) {
    const ValueId v = joint_.inputs()[i].value;
    if (v == kNoValue || value_vertex_[v] == kNoVertex) continue;
    const bool is_static = i < static_inputs.size() && static_inputs[i];
    network_.AddEdge(kSource, value_vertex_[v], written[i] ? kInfiniteCapacity : is_static ? 0 : sizes_.Bytes(v));
  }
}

void SaveNetwork::ReadInBackward(ValueId v) {
  const NodeId p = joint_.producer(v);
  if (p != kNoNode && roles_.backward[p]) {
    live_[p] = true;
  } else {
    Connect(v, kSink);
  }
}

// Constants and tangents are there without an edge.
void SaveNetwork::Connect(ValueId v, uint32_t reader) {
  if (joint_.producer(v) == kNoNode && !primal_[v]) return;
  network_.AddEdge(ValueVertex(v), reader, kInfiniteCapacity);
}

uint32_t SaveNetwork::NodeVertex(NodeId n) {
  if (node_vertex_[n] == kNoVertex) node_vertex_[n] = network_.AddVertex();
  return node_vertex_[n];
}

uint32_t SaveNetwork::ValueVertex(ValueId v) {
  if (value_vertex_[v] == kNoVertex) {
    value_vertex_[v] = network_.AddVertex();
    if (joint_.producer(v) != kNoNode) NodeVertex(joint_.producer(v));
  }
  return value_vertex_[v];
}

absl::Status SaveNetwork::NoCut() const {
  for (const GraphUpdate& update : joint_.updates()) {
    const ValueId v = joint_.inputs()[update.input].value;
    if (v != kNoValue && value_vertex_[v] != kNoVertex) {
      return absl::UnimplementedError(
          absl::StrCat("input ", update.input, " is written in place and its old value is needed by the backward"));
    }
  }
  return absl::InternalError("no finite cut between forward and backward");
}

}  // namespace kiln
