#include "compiler/partition/recompute.h"

#include <algorithm>
#include <span>

#include "compiler/lower/alias.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/registry.h"

namespace kiln {
namespace {

// A recomputed chain has to fit one kernel with the gradients that read it: a third of FusionLimits::group_nodes.
constexpr uint32_t kLongestChain = 33;

enum class Kind : uint8_t { kView, kCreation, kPointwise, kReducing, kExternal };

// Composites count as reducing: none of them is pointwise. One that draws random numbers has an external call in it.
Kind KindOf(const Graph& graph, const Node& node) {
  switch (Classify(graph, node)) {
    case NodeKind::kView:
      return Kind::kView;
    case NodeKind::kInlined:  // alone, a creation
      return Kind::kCreation;
    case NodeKind::kPointwise:
      return Kind::kPointwise;
    case NodeKind::kReduction:
    case NodeKind::kOrdered:
      return Kind::kReducing;
    case NodeKind::kExternal:
      break;
  }
  const Call call(graph, node);
  const bool composite = HasMeaning(call) && node.def->decompose && !TraitsOf(call).random;
  return composite ? Kind::kReducing : Kind::kExternal;
}

// Node::recompute: 1 + torch's CheckpointPolicy.
bool SaysSave(const Node& node) { return node.recompute == 1; }
bool PrefersSave(const Node& node) { return node.recompute == 2; }
bool SaysRecompute(const Node& node) { return node.recompute == 3 || node.recompute == 4; }

class Rules {
 public:
  Rules(const Graph& joint, const Roles& roles)
      : joint_(joint), roles_(roles), root_(joint.num_values()), materialised_(joint.num_values()) {
    for (const Node& node : joint.nodes()) kinds_.push_back(KindOf(joint, node));
    level_.resize(kinds_.size());
    chain_.resize(kinds_.size());
    rules_.resize(kinds_.size(), Recompute::kFuses);
  }

  std::vector<Recompute> Run() {
    FindMaterialised();
    for (ValueId v = 0; v < joint_.num_values(); ++v) root_[v] = kNoNode;
    for (NodeId n = 0; n < kinds_.size(); ++n) {
      const Node& node = joint_.nodes()[n];
      NodeId root = n;
      if (kinds_[n] == Kind::kView) ForEachOperand(n, [&](ValueId v) { root = root_[v]; });
      for (uint32_t r = 0; r < node.num_results; ++r) root_[node.first_result + r] = root;
      if (roles_.forward[n]) FindPlace(n);
      rules_[n] = RuleOf(n);
      if (rules_[n] != Recompute::kFuses) chain_[n] = 0;
    }
    return std::move(rules_);
  }

 private:
  template <typename F>
  void ForEachOperand(NodeId n, F&& f) const {
    ForEachValue(std::span<const Arg>(joint_.nodes()[n].args), f);
  }

  // Values that the backward has to have in memory, for an external call or as a gradient: computing them again would
  // save nothing.
  void FindMaterialised() {
    for (const GraphOutput& out : joint_.outputs().subspan(joint_.num_forward_outputs())) {
      if (out.kind == GraphOutput::Kind::kValue) materialised_[out.value] = true;
    }
    for (auto n = static_cast<NodeId>(kinds_.size()); n-- > 0;) {
      const bool reads_memory = kinds_[n] == Kind::kExternal && !roles_.forward[n];
      if (reads_memory || (kinds_[n] == Kind::kView && IsMaterialised(n))) {
        ForEachOperand(n, [&](ValueId v) { materialised_[v] = true; });
      }
    }
  }

  bool IsMaterialised(NodeId n) const {
    const Node& node = joint_.nodes()[n];
    for (uint32_t r = 0; r < node.num_results; ++r) {
      if (materialised_[node.first_result + r]) return true;
    }
    return false;
  }

  // A forward node's level: the external calls on the longest way to it. Its chain: fusing nodes up to and with it.
  void FindPlace(NodeId n) {
    ForEachOperand(n, [&](ValueId v) {
      const NodeId root = root_[v];
      if (root == kNoNode || !roles_.forward[root]) return;
      level_[n] = std::max(level_[n], level_[root] + (kinds_[root] == Kind::kExternal ? 1 : 0));
      chain_[n] = std::max(chain_[n], chain_[root] + 1);
    });
  }

  // Whether the node meets a fused value again after an external call that lies between (a residual stream): the kernel
  // that reads it is not the one that reads the value's near users, so computing both again would mean storing the
  // value after all.
  bool IsFarFromAnOperand(NodeId n) const {
    bool far = false;
    ForEachOperand(n, [&](ValueId v) {
      const NodeId root = root_[v];
      if (root == kNoNode || !roles_.forward[root]) return;
      const bool fused = kinds_[root] == Kind::kPointwise || kinds_[root] == Kind::kReducing;
      far = far || (fused && level_[root] < level_[n]);
    });
    return far;
  }

  Recompute RuleOf(NodeId n) const {
    const Node& node = joint_.nodes()[n];
    const Kind kind = kinds_[n];
    if (kind == Kind::kView || kind == Kind::kCreation) return Recompute::kFree;
    const Traits traits = TraitsOf(Call(joint_, node));
    if (traits.random || traits.effect || traits.data_dependent) return Recompute::kNever;
    if (!roles_.forward[n]) return kind == Kind::kExternal ? Recompute::kAsked : Recompute::kFuses;
    if (SaysSave(node)) return Recompute::kNever;
    if (SaysRecompute(node)) return Recompute::kAsked;
    if (kind == Kind::kReducing || node.def == nullptr) return Recompute::kNever;
    const bool fuses = kind == Kind::kPointwise && !traits.compute_heavy && !PrefersSave(node);
    if (!fuses || IsMaterialised(n) || IsFarFromAnOperand(n) || chain_[n] >= kLongestChain) return Recompute::kCosts;
    return Recompute::kFuses;
  }

  const Graph& joint_;
  const Roles& roles_;
  std::vector<Kind> kinds_;         // per node
  std::vector<NodeId> root_;        // per value: what made the memory that it looks into
  std::vector<bool> materialised_;  // per value
  std::vector<uint32_t> level_;     // per node
  std::vector<uint32_t> chain_;     // per node
  std::vector<Recompute> rules_;    // per node
};

}  // namespace

std::vector<Recompute> RecomputeRules(const Graph& joint, const Roles& roles) { return Rules(joint, roles).Run(); }

}  // namespace kiln
