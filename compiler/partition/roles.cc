#include "compiler/partition/roles.h"

#include <span>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/registry.h"

namespace kiln {
namespace {

bool IsBound(const Graph& graph, const Node& node) {
  const Traits traits = TraitsOf(Call(graph, node));
  return traits.random || traits.effect;
}

class Finder {
 public:
  explicit Finder(const Graph& joint) : joint_(joint) {
    roles_.forward.resize(joint.nodes().size());
    roles_.backward.resize(joint.nodes().size());
    roles_.bound.reserve(joint.nodes().size());
    for (const Node& node : joint.nodes()) roles_.bound.push_back(IsBound(joint, node));
  }

  absl::StatusOr<Roles> Run() {
    FindForward();
    FindBackward();
    if (absl::Status status = Check(); !status.ok()) return status;
    return std::move(roles_);
  }

 private:
  void NeedForward(ValueId v) {
    if (joint_.producer(v) != kNoNode) roles_.forward[joint_.producer(v)] = true;
  }

  void FindForward() {
    for (const GraphOutput& out : joint_.outputs().first(joint_.num_forward_outputs())) {
      if (out.kind == GraphOutput::Kind::kValue) NeedForward(out.value);
    }
    for (const GraphUpdate& update : joint_.updates()) NeedForward(update.value);
    for (auto n = static_cast<NodeId>(joint_.nodes().size()); n-- > 0;) {
      const Node& node = joint_.nodes()[n];
      if (roles_.bound[n] && node.phase == Phase::kForward) roles_.forward[n] = true;
      if (roles_.forward[n]) ForEachValue(std::span<const Arg>(node.args), [&](ValueId v) { NeedForward(v); });
    }
  }

  void FindBackward() {
    late_.resize(joint_.num_values());
    for (const GraphInput& input : joint_.inputs().subspan(joint_.num_primals())) {
      if (input.value != kNoValue) late_[input.value] = true;
    }
    for (NodeId n = 0; n < joint_.nodes().size(); ++n) {
      const Node& node = joint_.nodes()[n];
      bool is_late = roles_.bound[n] && node.phase == Phase::kBackward && !roles_.forward[n];
      ForEachValue(std::span<const Arg>(node.args), [&](ValueId v) { is_late = is_late || late_[v]; });
      roles_.backward[n] = is_late;
      for (uint32_t r = 0; r < node.num_results; ++r) late_[node.first_result + r] = is_late;
    }
  }

  absl::Status Check() const {
    for (uint32_t i = 0; i < joint_.num_forward_outputs(); ++i) {
      const GraphOutput& out = joint_.outputs()[i];
      if (out.kind == GraphOutput::Kind::kValue && late_[out.value]) {
        return absl::InvalidArgumentError(absl::StrCat("output ", i, " of the forward depends on a tangent"));
      }
    }
    for (const GraphUpdate& update : joint_.updates()) {
      if (late_[update.value]) {
        return absl::UnimplementedError(absl::StrCat("input ", update.input, " is written in place by the backward"));
      }
    }
    for (NodeId n = 0; n < joint_.nodes().size(); ++n) {
      if (roles_.forward[n] && roles_.backward[n]) {
        return absl::InvalidArgumentError(
            absl::StrCat("node ", n, " draws or has an effect in the forward, and depends on a tangent"));
      }
    }
    return absl::OkStatus();
  }

  const Graph& joint_;
  std::vector<bool> late_;  // per value: computed by the backward, or a tangent
  Roles roles_;
};

}  // namespace

absl::StatusOr<Roles> FindRoles(const Graph& joint) { return Finder(joint).Run(); }

std::vector<bool> Primals(const Graph& joint) {
  std::vector<bool> primal(joint.num_values());
  for (const GraphInput& input : joint.inputs().first(joint.num_primals())) {
    if (input.value != kNoValue) primal[input.value] = true;
  }
  return primal;
}

}  // namespace kiln
