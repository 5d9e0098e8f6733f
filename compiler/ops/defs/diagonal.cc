// Diagonals as views: two dims become one, the last.
#include <algorithm>
#include <utility>

#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"

namespace kiln {
namespace {

struct DiagonalDims {
  int64_t row, column, offset;
};

DiagonalDims DiagonalOf(const Call& call) {
  const int64_t rank = call.type(0).rank();
  return {Call::WrapDim(call.ConstInt(2), rank), Call::WrapDim(call.ConstInt(3, 1), rank), call.ConstInt(1)};
}

// Of sizes that are known, which a diagonal's own is found by.
bool IsDiagonal(const Call& call) {
  const DiagonalDims d = DiagonalOf(call);
  const std::vector<Sym>& sizes = call.type(0).sizes;
  return d.row != d.column && call.syms().AsConst(sizes[d.row]) && call.syms().AsConst(sizes[d.column]);
}

absl::StatusOr<TypeList> DiagonalShape(const Call& call) {
  SymContext& syms = call.syms();
  const TensorType& from = call.type(0);
  const DiagonalDims d = DiagonalOf(call);
  const auto within = [&](int64_t dim) { return dim >= 0 && dim < from.rank(); };
  if (!within(d.row) || !within(d.column)) return absl::InvalidArgumentError("a diagonal of a dim that is not there");
  if (!IsDiagonal(call)) return AsImported(call);
  TensorType type{.dtype = from.dtype, .device = from.device, .sizes = {}, .strides = {}};
  for (int64_t i = 0; i < from.rank(); ++i) {
    if (i == d.row || i == d.column) continue;
    type.sizes.push_back(from.sizes[i]);
    type.strides.push_back(from.strides[i]);
  }
  const int64_t rows = *syms.AsConst(from.sizes[d.row]) + std::min<int64_t>(d.offset, 0);
  const int64_t columns = *syms.AsConst(from.sizes[d.column]) - std::max<int64_t>(d.offset, 0);
  type.sizes.push_back(syms.Const(std::max<int64_t>(std::min(rows, columns), 0)));
  type.strides.push_back(syms.Add(from.strides[d.row], from.strides[d.column]));
  return TypeList{std::move(type)};
}

std::vector<Sym> DiagonalIndex(const Call& call, size_t, std::span<const Sym> index) {
  SymContext& syms = call.syms();
  const DiagonalDims d = DiagonalOf(call);
  std::vector<Sym> result;
  size_t next = 0;
  for (int64_t i = 0; i < call.type(0).rank(); ++i) {
    if (i == d.row) {
      result.push_back(syms.Add(index.back(), syms.Const(std::max<int64_t>(-d.offset, 0))));
    } else if (i == d.column) {
      result.push_back(syms.Add(index.back(), syms.Const(std::max<int64_t>(d.offset, 0))));
    } else {
      result.push_back(index[next++]);
    }
  }
  return result;
}

}  // namespace

KILN_OP(diagonal) = {
    .schema = "diagonal(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
    .torch = {"aten.diagonal.default"},
    .supports = IsDiagonal,
    .shape = DiagonalShape,
    .view = DiagonalIndex,
};

}  // namespace kiln
