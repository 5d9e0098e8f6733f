#include "compiler/partition/estimate.h"

#include <algorithm>
#include <optional>

namespace kiln {
namespace {

constexpr int64_t kMost = int64_t{1} << 40;
constexpr int64_t kUnknownSize = 256;

// The middle of the size's class, within its range.
int64_t Guess(const Graph& graph, Var var) {
  const uint32_t size_class = graph.size_class(var.index);
  const int64_t guess = size_class == 0   ? kUnknownSize
                        : size_class == 1 ? 1
                                          : int64_t{3} << std::min(size_class - 2, 38u);
  const SymRange range = graph.syms().Range(var);
  return std::clamp(guess, std::clamp(range.min, int64_t{0}, kMost), std::clamp(range.max, int64_t{0}, kMost));
}

}  // namespace

int64_t SizeEstimate::Count(const TensorType& type) const {
  int64_t elements = 1;
  for (const Sym s : type.sizes) {
    const absl::StatusOr<int64_t> size =
        graph_.syms().Eval(s, [&](Var var) -> std::optional<int64_t> { return Guess(graph_, var); });
    const int64_t known = size.ok() ? std::clamp(*size, int64_t{0}, kMost) : kMost;
    if (known == 0) return 0;
    elements = elements > kMost / known ? kMost : elements * known;
  }
  return elements;
}

int64_t SizeEstimate::Elements(ValueId value) {
  const TensorType* type = graph_.type(value);
  const auto [it, first] = elements_.try_emplace(type, 0);
  if (first) it->second = Count(*type);
  return it->second;
}

int64_t SizeEstimate::Bytes(ValueId value) {
  return std::min(Elements(value) * static_cast<int64_t>(ByteSize(graph_.type(value)->dtype)), kMost);
}

}  // namespace kiln
