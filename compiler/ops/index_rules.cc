#include "compiler/ops/index_rules.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "compiler/ops/lower_rules.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/ops/view_rules.h"

namespace kiln {

IndexPlan PlanIndex(const Call& call) {
  IndexPlan plan;
  plan.item.resize(call.type(0).sizes.size());
  const std::vector<ValueId> indices = call.Values(1);
  std::optional<size_t> first, last;
  size_t count = 0;
  for (size_t k = 0; k < indices.size() && k < plan.item.size(); ++k) {
    if (indices[k] == kNoValue) continue;
    plan.item[k] = k;
    plan.broadcast_rank = std::max(plan.broadcast_rank, call.graph().type(indices[k])->sizes.size());
    if (!first) first = k;
    last = k;
    ++count;
  }
  // Adjacent index tensors put their dims in their place, others in front.
  if (count > 0 && *last - *first + 1 == count) plan.position = *first;
  return plan;
}

bool SupportsIndex(const Call& call) {
  return std::ranges::all_of(call.Values(1),
                             [&](ValueId v) { return v == kNoValue || IsIndexType(call.graph().type(v)->dtype); });
}

absl::StatusOr<std::vector<Sym>> IndexedShape(const Call& call) {
  const TensorType& self = call.type(0);
  const std::vector<ValueId> indices = call.Values(1);
  if (indices.size() > self.sizes.size()) return absl::InvalidArgumentError("index: more index tensors than dims");
  std::vector<Sym> broadcast;
  for (ValueId v : indices) {
    if (v == kNoValue) continue;
    absl::StatusOr<std::vector<Sym>> sizes = BroadcastSizes(call.syms(), broadcast, call.graph().type(v)->sizes);
    if (!sizes.ok()) return sizes.status();
    broadcast = *std::move(sizes);
  }
  const IndexPlan plan = PlanIndex(call);
  std::vector<Sym> sizes;
  for (size_t d = 0; d < plan.item.size(); ++d) {
    if (!plan.item[d]) sizes.push_back(self.sizes[d]);
  }
  sizes.insert(sizes.begin() + static_cast<ptrdiff_t>(plan.position), broadcast.begin(), broadcast.end());
  return sizes;
}

std::vector<Sym> IndexedPlace(Element& e, const IndexPlan& plan, std::span<const Sym> sizes) {
  const Call& call = e.call();
  const std::vector<ValueId> indices = call.Values(1);
  const std::span<const Sym> broadcast_sizes = sizes.subspan(plan.position, plan.broadcast_rank);
  const std::span<const Sym> broadcast_index = e.index().subspan(plan.position, plan.broadcast_rank);
  std::vector<Sym> at;
  size_t next = 0;  // dim of the result that the next dim of self without an index tensor comes from
  for (size_t d = 0; d < plan.item.size(); ++d) {
    if (next == plan.position) next += plan.broadcast_rank;
    if (!plan.item[d]) {
      at.push_back(e.index()[next++]);
      continue;
    }
    const size_t k = *plan.item[d];
    const std::vector<Sym> index_at =
        BroadcastIndex(call.syms(), broadcast_index, broadcast_sizes, call.graph().type(indices[k])->sizes);
    at.push_back(CheckedIndex(e, IndexOperand(e, 1, index_at, k), call.type(0).sizes[d], /*wrap=*/true));
  }
  return at;
}

}  // namespace kiln
