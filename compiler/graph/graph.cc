#include "compiler/graph/graph.h"

#include <algorithm>

namespace kiln {

std::vector<Sym> RowMajorStrides(SymContext& syms, std::span<const Sym> sizes) {
  std::vector<Sym> strides(sizes.size());
  Sym stride = syms.Const(1);
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride = syms.Mul(stride, sizes[i]);
  }
  return strides;
}

namespace {

template <typename T>
bool SameList(std::span<const T> a, std::span<const T> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

bool SameNode(const Graph& a, const Node& x, const Graph& b, const Node& y) {
  return x.def == y.def && a.op_name(x) == b.op_name(y) && x.args == y.args && x.first_result == y.first_result &&
         x.num_results == y.num_results && x.phase == y.phase && x.recompute == y.recompute && x.origin == y.origin;
}

}  // namespace

bool SameGraph(const Graph& a, const Graph& b) {
  if (a.level() != b.level() || a.num_primals() != b.num_primals() ||
      a.num_forward_outputs() != b.num_forward_outputs() || a.num_sizes() != b.num_sizes() ||
      a.nodes().size() != b.nodes().size()) {
    return false;
  }
  for (uint32_t i = 0; i < a.num_sizes(); ++i) {
    if (a.size_class(i) != b.size_class(i)) return false;
  }
  // Ids that name nothing may follow the last value; text does not say how many.
  for (ValueId v = 0; v < std::max(a.num_values(), b.num_values()); ++v) {
    const TensorType* x = v < a.num_values() ? a.type(v) : nullptr;
    const TensorType* y = v < b.num_values() ? b.type(v) : nullptr;
    if ((x == nullptr) != (y == nullptr) || (x && *x != *y)) return false;
  }
  for (size_t i = 0; i < a.nodes().size(); ++i) {
    if (!SameNode(a, a.nodes()[i], b, b.nodes()[i])) return false;
  }
  return SameList(a.inputs(), b.inputs()) && SameList(a.constants(), b.constants()) &&
         SameList(a.outputs(), b.outputs()) && SameList(a.updates(), b.updates());
}

}  // namespace kiln
