#include "compiler/partition/choose_saved.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include "compiler/ops/op_def.h"
#include "compiler/ops/registry.h"
#include "compiler/partition/estimate.h"
#include "compiler/partition/recompute.h"
#include "compiler/partition/roles.h"
#include "compiler/partition/save_network.h"

namespace kiln {
namespace {

// Multiplications: exact for a product of two matrices (the root of the product of the three sizes), others are taken
// for one.
double Multiplications(std::vector<double> operands, double results) {
  std::ranges::sort(operands, std::greater<>());
  operands.resize(2, 1.0);
  return std::sqrt(operands[0]) * std::sqrt(operands[1]) * std::sqrt(results);
}

// What computing the node costs for each byte of its results.
double CostPerByte(const Graph& joint, NodeId n, SizeEstimate& sizes) {
  const Node& node = joint.nodes()[n];
  std::vector<double> operands;
  double read = 0, results = 0, bytes = 0;
  ForEachValue(std::span<const Arg>(node.args), [&](ValueId v) {
    operands.push_back(static_cast<double>(sizes.Elements(v)));
    read += operands.back();
  });
  for (uint32_t r = 0; r < node.num_results; ++r) {
    const ValueId v = node.first_result + r;
    if (joint.type(v) == nullptr) continue;
    results += static_cast<double>(sizes.Elements(v));
    bytes += static_cast<double>(sizes.Bytes(v));
  }
  const bool heavy = TraitsOf(Call(joint, node)).compute_heavy;
  return (heavy ? Multiplications(std::move(operands), results) : read) / std::max(bytes, 1.0);
}

std::vector<NodeId> DearestFirst(const Graph& joint, std::vector<NodeId> nodes) {
  SizeEstimate sizes(joint);
  std::vector<std::pair<double, NodeId>> order;
  for (const NodeId n : nodes) order.emplace_back(-CostPerByte(joint, n, sizes), n);
  std::ranges::sort(order);
  std::ranges::transform(order, nodes.begin(), [](const auto& entry) { return entry.second; });
  return nodes;
}

// The more nodes are kept, the more bytes a cut has: the largest number of the first nodes that stays within the limit.
absl::StatusOr<SavedSet> CutWithin(const SaveNetwork& network, std::span<const NodeId> dearest, double budget) {
  absl::StatusOr<SavedSet> least = network.Cut({});
  if (!least.ok() || budget <= 0) return least;
  absl::StatusOr<SavedSet> most = network.Cut(dearest);
  if (!most.ok()) return most;
  const double limit = static_cast<double>(least->bytes) + budget * static_cast<double>(most->bytes - least->bytes);
  size_t kept = 0, too_many = dearest.size() + 1;
  while (kept + 1 < too_many) {
    const size_t middle = kept + (too_many - kept) / 2;
    absl::StatusOr<SavedSet> cut = network.Cut(dearest.first(middle));
    if (!cut.ok()) return cut;
    if (static_cast<double>(cut->bytes) <= limit) {
      kept = middle;
      least = std::move(cut);
    } else {
      too_many = middle;
    }
  }
  return least;
}

}  // namespace

absl::StatusOr<std::vector<ValueId>> ChooseSaved(const Graph& joint, const PartitionOptions& options) {
  absl::StatusOr<Roles> roles = FindRoles(joint);
  if (!roles.ok()) return roles.status();
  const std::vector<Recompute> rules = RecomputeRules(joint, *roles);
  const SaveNetwork network(joint, *roles, rules, options.static_inputs);
  const std::vector<NodeId> costly = network.Costly();
  absl::StatusOr<SavedSet> saved = options.memory_budget >= 1
                                       ? network.Cut(costly)
                                       : CutWithin(network, DearestFirst(joint, costly), options.memory_budget);
  if (!saved.ok()) return saved.status();
  return std::move(saved->values);
}

}  // namespace kiln
