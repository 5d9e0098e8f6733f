#include "compiler/memory/workspace.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <queue>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace kiln {

WorkspacePlan PlanWorkspace(SymContext& syms, std::span<const Temporary> temporaries) {
  std::vector<uint32_t> order(temporaries.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(temporaries[a].first, a) < std::pair(temporaries[b].first, b);
  });
  WorkspacePlan plan;
  plan.offsets.resize(temporaries.size());
  plan.bytes = syms.Const(0);
  const Sym align = syms.Const(kWorkspaceAlignment);
  absl::flat_hash_map<Sym, std::vector<Sym>> free_places;  // by rounded size
  using Dying = std::pair<uint32_t, uint32_t>;             // last step, temporary
  std::priority_queue<Dying, std::vector<Dying>, std::greater<Dying>> alive;
  const auto rounded = [&](uint32_t t) { return syms.Mul(syms.CeilDiv(temporaries[t].bytes, align), align); };
  for (const uint32_t t : order) {
    while (!alive.empty() && alive.top().first < temporaries[t].first) {
      const uint32_t dead = alive.top().second;
      free_places[rounded(dead)].push_back(plan.offsets[dead]);
      alive.pop();
    }
    const Sym size = rounded(t);
    std::vector<Sym>& places = free_places[size];
    if (places.empty()) {
      plan.offsets[t] = plan.bytes;
      plan.bytes = syms.Add(plan.bytes, size);
    } else {
      plan.offsets[t] = places.back();
      places.pop_back();
    }
    alive.push({temporaries[t].last, t});
  }
  return plan;
}

absl::Status CheckWorkspace(const SymContext& syms, std::span<const Temporary> temporaries, const WorkspacePlan& plan,
                            const std::function<std::optional<int64_t>(Var)>& sizes) {
  struct Span {
    int64_t begin, end;
  };
  std::vector<Span> spans;
  absl::StatusOr<int64_t> total = syms.Eval(plan.bytes, sizes);
  if (!total.ok()) return total.status();
  for (size_t t = 0; t < temporaries.size(); ++t) {
    absl::StatusOr<int64_t> begin = syms.Eval(plan.offsets[t], sizes), bytes = syms.Eval(temporaries[t].bytes, sizes);
    if (!begin.ok()) return begin.status();
    if (!bytes.ok()) return bytes.status();
    spans.push_back({*begin, *begin + *bytes});
    if (*begin < 0 || *begin % kWorkspaceAlignment != 0 || spans.back().end > *total) {
      return absl::InternalError(absl::StrCat("temporary ", t, " leaves the workspace"));
    }
  }
  for (size_t a = 0; a < temporaries.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      const bool meet = temporaries[a].first <= temporaries[b].last && temporaries[b].first <= temporaries[a].last;
      if (meet && spans[a].begin < spans[b].end && spans[b].begin < spans[a].end) {
        return absl::InternalError(absl::StrCat("temporaries ", b, " and ", a, " overlap"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln
