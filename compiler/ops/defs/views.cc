// Views: the same memory under another index. `view` gives the operand's index; nothing is copied.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/ops/decompose_rules.h"
#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_builder.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/ops/view_rules.h"
#include "compiler/ops/vjp_rules.h"

namespace kiln {
namespace {

using Index = std::vector<Sym>;

absl::StatusOr<TypeList> IdentityShape(const Call& call) { return TypeList{call.type(0)}; }
Index IdentityIndex(const Call&, size_t, std::span<const Sym> index) { return {index.begin(), index.end()}; }

absl::StatusOr<TypeList> ViewShape(const Call& call) {
  SymContext& syms = call.syms();
  TensorType type = call.type(0);
  absl::StatusOr<Index> sizes = InferViewSizes(syms, type.sizes, call.Ints(1));
  if (!sizes.ok()) return sizes.status();
  const std::optional<Index> strides = ViewStrides(syms, type, *sizes);
  // What no expression shows to be viewable may be so by a guard.
  const auto known = [&](Sym s) { return syms.AsConst(s).has_value(); };
  if (!strides && std::ranges::all_of(type.sizes, known) && std::ranges::all_of(type.strides, known)) {
    return absl::InvalidArgumentError("a view would need a copy: the layout does not allow these sizes");
  }
  type.strides = strides ? *strides : ContiguousStrides(syms, *sizes);
  type.sizes = *std::move(sizes);
  return TypeList{std::move(type)};
}

// --- permutations: result dim d is operand dim perm[d] ---

absl::StatusOr<TypeList> PermuteShape(const Call& call, const std::vector<int64_t>& perm) {
  const TensorType& from = call.type(0);
  TensorType type{.dtype = from.dtype, .device = from.device, .sizes = {}, .strides = {}};
  for (int64_t d : perm) {
    type.sizes.push_back(from.sizes[d]);
    type.strides.push_back(from.strides[d]);
  }
  return TypeList{std::move(type)};
}

Index PermuteIndex(std::span<const Sym> index, const std::vector<int64_t>& perm) {
  Index result(index.size());
  for (size_t d = 0; d < perm.size(); ++d) result[perm[d]] = index[d];
  return result;
}

std::vector<int64_t> Swapped(int64_t rank, int64_t a, int64_t b) {
  std::vector<int64_t> perm(rank);
  for (int64_t d = 0; d < rank; ++d) perm[d] = d;
  if (rank > 0) std::swap(perm[a], perm[b]);
  return perm;
}

std::vector<int64_t> PermArg(const Call& call) {
  std::vector<int64_t> perm = call.ConstInts(1);
  for (int64_t& d : perm) d = Call::WrapDim(d, call.type(0).rank());
  return perm;
}

// --- squeezing: which of the operand's dims go ---

std::vector<bool> Squeezed(const Call& call) {
  const TensorType& from = call.type(0);
  std::vector<bool> gone(from.sizes.size(), call.is_none(1));
  for (int64_t dim : call.ConstInts(1)) {
    const int64_t d = Call::WrapDim(dim, from.rank());
    if (d >= 0 && d < from.rank()) gone[d] = true;
  }
  for (size_t d = 0; d < gone.size(); ++d) gone[d] = gone[d] && call.syms().IsConst(from.sizes[d], 1);
  return gone;
}

absl::StatusOr<TypeList> SqueezeShape(const Call& call) {
  for (int64_t dim : call.ConstInts(1)) {
    const int64_t rank = call.type(0).rank(), d = Call::WrapDim(dim, rank);
    if (d < 0 || d >= std::max<int64_t>(rank, 1)) {
      return absl::InvalidArgumentError(absl::StrCat("squeeze: dim ", dim, " of a tensor of ", rank, " dims"));
    }
  }
  const TensorType& from = call.type(0);
  const std::vector<bool> gone = Squeezed(call);
  TensorType type{.dtype = from.dtype, .device = from.device, .sizes = {}, .strides = {}};
  for (size_t d = 0; d < gone.size(); ++d) {
    if (gone[d]) continue;
    type.sizes.push_back(from.sizes[d]);
    type.strides.push_back(from.strides[d]);
  }
  return TypeList{std::move(type)};
}

Index SqueezeIndex(const Call& call, size_t, std::span<const Sym> index) {
  Index result;
  size_t next = 0;
  for (bool gone : Squeezed(call)) result.push_back(gone ? Sym{} : index[next++]);
  return result;
}

// --- pieces of one dim ---

// `from` with dim cut to `size`.
TensorType Narrowed(const TensorType& from, int64_t dim, Sym size) {
  TensorType type = from;
  type.sizes[dim] = size;
  return type;
}

Index Shifted(SymContext& syms, std::span<const Sym> index, int64_t dim, Sym by) {
  return WithDim(index, dim, syms.Add(index[dim], by));
}

// A list result as long as a request could make it, but not longer.
constexpr int64_t kMaxPieces = 1 << 16;

absl::Status NeedsDims(const Call& call) {
  if (call.type(0).rank() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("a tensor of 0 dims has no dim to take apart");
}

// split(self, split_size, dim): all pieces are of split_size but the last.
absl::StatusOr<TypeList> SplitShape(const Call& call) {
  SymContext& syms = call.syms();
  if (absl::Status s = NeedsDims(call); !s.ok()) return s;
  const absl::StatusOr<int64_t> dim = DimArg(call, 2, call.type(0).rank());
  if (!dim.ok()) return dim.status();
  const Sym size = call.type(0).sizes[*dim], piece = call.Int(1);
  const std::optional<int64_t> count = syms.AsConst(syms.CeilDiv(size, piece));
  const int64_t pieces = count ? std::max<int64_t>(*count, 1) : call.node().num_results;
  if (pieces == 0 || pieces > kMaxPieces || syms.ProvablyLess(piece, Sym{})) {
    return absl::InvalidArgumentError(absl::StrCat("split: size ", syms.ToString(piece), " of ", syms.ToString(size)));
  }
  TypeList types(static_cast<size_t>(pieces), Narrowed(call.type(0), *dim, piece));
  const Sym before = syms.Mul(piece, syms.Const(pieces - 1));
  types.back().sizes[*dim] = syms.Sub(size, before);
  return types;
}

Index SplitIndex(const Call& call, size_t result, std::span<const Sym> index) {
  SymContext& syms = call.syms();
  const int64_t dim = Call::WrapDim(call.ConstInt(2), call.type(0).rank());
  return Shifted(syms, index, dim, syms.Mul(call.Int(1), syms.Const(static_cast<int64_t>(result))));
}

absl::StatusOr<TypeList> SplitSizesShape(const Call& call) {
  if (absl::Status s = NeedsDims(call); !s.ok()) return s;
  const absl::StatusOr<int64_t> dim = DimArg(call, 2, call.type(0).rank());
  if (!dim.ok()) return dim.status();
  TypeList types;
  for (Sym size : call.Ints(1)) types.push_back(Narrowed(call.type(0), *dim, size));
  return types;
}

Index SplitSizesIndex(const Call& call, size_t result, std::span<const Sym> index) {
  Sym before{};
  const Index sizes = call.Ints(1);
  for (size_t i = 0; i < result && i < sizes.size(); ++i) before = call.syms().Add(before, sizes[i]);
  return Shifted(call.syms(), index, Call::WrapDim(call.ConstInt(2), call.type(0).rank()), before);
}

absl::StatusOr<TypeList> ExpandShape(const Call& call) {
  SymContext& syms = call.syms();
  const TensorType& from = call.type(0);
  TensorType type{.dtype = from.dtype, .device = from.device, .sizes = call.Ints(1), .strides = {}};
  if (type.sizes.size() < from.sizes.size()) return absl::InvalidArgumentError("expand to fewer dims");
  type.strides.resize(type.sizes.size());
  const size_t added = type.sizes.size() - from.sizes.size();
  for (size_t d = added; d < type.sizes.size(); ++d) {
    const Sym own = from.sizes[d - added];
    Sym& size = type.sizes[d];
    if (syms.IsConst(size, -1)) size = own;
    const bool broadcast = syms.IsConst(own, 1) && size != own;
    if (!broadcast && syms.AsConst(own) && syms.AsConst(size) && size != own) {
      return absl::InvalidArgumentError(
          absl::StrCat("expand: dim ", d, " has size ", syms.ToString(own), ", not 1 or ", syms.ToString(size)));
    }
    if (!broadcast) type.strides[d] = from.strides[d - added];
  }
  // A dim in front is as if it came from size 1: its stride is 0, or, where it stays 1, what keeps the layout dense.
  for (size_t d = added; d-- > 0;) {
    if (!syms.IsConst(type.sizes[d], 1)) continue;
    type.strides[d] = d + 1 < type.sizes.size() ? syms.Mul(type.sizes[d + 1], type.strides[d + 1]) : syms.Const(1);
  }
  return TypeList{std::move(type)};
}

// --- select and slice ---

Sym SelectedIndex(const Call& call, Sym size) { return WrapIndex(call.syms(), call.Int(2), size); }

absl::StatusOr<TypeList> SelectShape(const Call& call) {
  if (absl::Status s = NeedsDims(call); !s.ok()) return s;
  SymContext& syms = call.syms();
  const absl::StatusOr<int64_t> dim = DimArg(call, 1, call.type(0).rank());
  if (!dim.ok()) return dim.status();
  TensorType type = call.type(0);
  const Sym index = SelectedIndex(call, type.sizes[*dim]);
  if (syms.ProvablyLess(index, Sym{}) || syms.ProvablyLessEqual(type.sizes[*dim], index)) {
    return absl::InvalidArgumentError(
        absl::StrCat("select: index ", syms.ToString(call.Int(2)), " of a dim of ", syms.ToString(type.sizes[*dim])));
  }
  type.sizes = WithoutDim(type.sizes, *dim);
  type.strides = WithoutDim(type.strides, *dim);
  return TypeList{std::move(type)};
}

absl::StatusOr<TypeList> SliceShape(const Call& call) {
  if (absl::Status s = NeedsDims(call); !s.ok()) return s;
  SymContext& syms = call.syms();
  const absl::StatusOr<int64_t> dim = DimArg(call, 1, call.type(0).rank());
  if (!dim.ok()) return dim.status();
  if (syms.ProvablyLess(call.Int(4, 1), syms.Const(1)))
    return absl::InvalidArgumentError("slice: the step is not positive");
  TensorType type = call.type(0);
  const SliceBounds bounds = NormalizeSlice(call, type.sizes[*dim], 2, 3, 4);
  type.sizes[*dim] = bounds.length;
  type.strides[*dim] = syms.Mul(type.strides[*dim], bounds.step);
  return TypeList{std::move(type)};
}

Index SliceIndex(const Call& call, size_t, std::span<const Sym> index) {
  SymContext& syms = call.syms();
  const int64_t dim = Call::WrapDim(call.ConstInt(1), call.type(0).rank());
  const SliceBounds bounds = NormalizeSlice(call, call.type(0).sizes[dim], 2, 3, 4);
  return WithDim(index, dim, syms.Add(bounds.start, syms.Mul(index[dim], bounds.step)));
}

}  // namespace

KILN_OP(alias) = {
    .schema = "alias(Tensor self) -> Tensor",
    .torch = {"aten.alias.default"},
    .shape = IdentityShape,
    .view = IdentityIndex,
    .vjp = [](GraphBuilder&, const Call&, std::span<const ValueId> d) -> Grads { return {d[0]}; },
};

// Cuts the gradient, which a captured graph says in other ways too: an alias here.
KILN_OP(detach) = {
    .schema = "detach(Tensor self) -> Tensor",
    .torch = {"aten.detach.default"},
    .shape = IdentityShape,
    .view = IdentityIndex,
    .no_grad = "detached",
};

KILN_OP(lift_fresh) = {
    .schema = "lift_fresh(Tensor self) -> Tensor",
    .torch = {"aten.lift_fresh.default"},
    .shape = IdentityShape,
    .view = IdentityIndex,
    .no_grad = "the operand is a constant",
};

KILN_OP(view) = {
    .schema = "view(Tensor self, SymInt[] size) -> Tensor",
    .torch = {"aten.view.default", "aten._unsafe_view.default"},
    .shape = ViewShape,
    .view =
        [](const Call& call, size_t, std::span<const Sym> index) {
          return ReshapeIndex(call.syms(), index, call.result().sizes, call.type(0).sizes);
        },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {Reshaped(b, d[0], c.type(0).sizes)};
    },
};

KILN_OP(t) = {
    .schema = "t(Tensor self) -> Tensor",
    .torch = {"aten.t.default"},
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      const int64_t rank = call.type(0).rank();
      if (rank > 2) return absl::InvalidArgumentError("t of a tensor of more than 2 dims");
      return PermuteShape(call, Swapped(rank, 0, rank - 1));
    },
    .view =
        [](const Call& call, size_t, std::span<const Sym> index) {
          const int64_t rank = call.type(0).rank();
          return PermuteIndex(index, Swapped(rank, 0, rank - 1));
        },
    .vjp = [](GraphBuilder& graph, const Call&, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.t(d[0])};
    },
};

KILN_OP(transpose) = {
    .schema = "transpose(Tensor self, int dim0, int dim1) -> Tensor",
    .torch = {"aten.transpose.int"},
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      const int64_t rank = call.type(0).rank();
      const absl::StatusOr<int64_t> a = DimArg(call, 1, rank), b = DimArg(call, 2, rank);
      if (!a.ok() || !b.ok()) return a.ok() ? b.status() : a.status();
      return PermuteShape(call, Swapped(rank, *a, *b));
    },
    .view =
        [](const Call& call, size_t, std::span<const Sym> index) {
          const int64_t rank = call.type(0).rank();
          return PermuteIndex(
              index, Swapped(rank, Call::WrapDim(call.ConstInt(1), rank), Call::WrapDim(call.ConstInt(2), rank)));
        },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.transpose(d[0], c.arg(1), c.arg(2))};
    },
};

KILN_OP(permute) = {
    .schema = "permute(Tensor self, int[] dims) -> Tensor",
    .torch = {"aten.permute.default"},
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      std::vector<int64_t> sorted = PermArg(call);
      std::ranges::sort(sorted);
      bool is_permutation = static_cast<int>(sorted.size()) == call.type(0).rank();
      for (size_t d = 0; d < sorted.size(); ++d) is_permutation &= sorted[d] == static_cast<int64_t>(d);
      if (!is_permutation) return absl::InvalidArgumentError("permute: not a permutation of the dims");
      return PermuteShape(call, PermArg(call));
    },
    .view = [](const Call& call, size_t, std::span<const Sym> index) { return PermuteIndex(index, PermArg(call)); },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      const std::vector<int64_t> dims = c.ConstInts(1);
      std::vector<int64_t> back(dims.size());
      for (size_t i = 0; i < dims.size(); ++i) back[Call::WrapDim(dims[i], c.type(0).rank())] = static_cast<int64_t>(i);
      return {b.permute(d[0], back)};
    },
};

KILN_OP(expand) = {
    .schema = "expand(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor",
    .torch = {"aten.expand.default"},
    .shape = ExpandShape,
    .view =
        [](const Call& call, size_t, std::span<const Sym> index) {
          return BroadcastIndex(call.syms(), index, call.result().sizes, call.type(0).sizes);
        },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {SumToOperand(b, d[0], c.type(0))};
    },
};

KILN_OP(unsqueeze) = {
    .schema = "unsqueeze(Tensor self, int dim) -> Tensor",
    .torch = {"aten.unsqueeze.default"},
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      SymContext& syms = call.syms();
      TensorType type = call.type(0);
      const absl::StatusOr<int64_t> dim = DimArg(call, 1, type.rank() + 1);
      if (!dim.ok()) return dim.status();
      const Sym stride = *dim < type.rank() ? syms.Mul(type.sizes[*dim], type.strides[*dim]) : syms.Const(1);
      type.sizes = InsertDim(type.sizes, *dim, syms.Const(1));
      type.strides = InsertDim(type.strides, *dim, stride);
      return TypeList{std::move(type)};
    },
    .view =
        [](const Call& call, size_t, std::span<const Sym> index) {
          return WithoutDim(index, Call::WrapDim(call.ConstInt(1), call.type(0).rank() + 1));
        },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {Reshaped(b, d[0], c.type(0).sizes)};
    },
};

KILN_OP(squeeze) = {
    .schema = "squeeze(Tensor self) -> Tensor",
    .torch = {"aten.squeeze.default"},
    .shape = SqueezeShape,
    .view = SqueezeIndex,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.view(d[0], c.type(0).sizes)};
    },
};

KILN_OP(squeeze_dim) = {
    .schema = "squeeze_dim(Tensor self, int dim) -> Tensor",
    .torch = {"aten.squeeze.dim"},
    .shape = SqueezeShape,
    .view = SqueezeIndex,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {Reshaped(b, d[0], c.type(0).sizes)};
    },
};

KILN_OP(squeeze_dims) = {
    .schema = "squeeze_dims(Tensor self, int[] dim) -> Tensor",
    .torch = {"aten.squeeze.dims"},
    .shape = SqueezeShape,
    .view = SqueezeIndex,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.view(d[0], c.type(0).sizes)};
    },
};

KILN_OP(select) = {
    .schema = "select(Tensor self, int dim, SymInt index) -> Tensor",
    .torch = {"aten.select.int"},
    .shape = SelectShape,
    .view =
        [](const Call& call, size_t, std::span<const Sym> index) {
          const int64_t dim = Call::WrapDim(call.ConstInt(1), call.type(0).rank());
          return InsertDim(index, dim, SelectedIndex(call, call.type(0).sizes[dim]));
        },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.select_backward(d[0], c.type(0).sizes, c.arg(1), c.arg(2))};
    },
};

KILN_OP(slice) = {
    .schema = "slice(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
    .torch = {"aten.slice.Tensor"},
    .shape = SliceShape,
    .view = SliceIndex,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      const Sym end = c.type(0).sizes[Call::WrapDim(c.ConstInt(1), c.type(0).rank())];
      return {b.slice_backward(d[0], c.type(0).sizes, c.arg(1), c.is_none(2) ? b.syms().Const(0) : c.Int(2),
                               c.is_none(3) ? end : c.Int(3), c.arg(4))};
    },
};

KILN_OP(split) = {
    .schema = "split(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
    .torch = {"aten.split.Tensor", "aten.unsafe_split.Tensor"},
    .shape = SplitShape,
    .view = SplitIndex,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.cat(Pieces(b, c, d), c.ConstInt(2))};
    },
};

KILN_OP(split_with_sizes) = {
    .schema = "split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
    .torch = {"aten.split_with_sizes.default", "aten.unsafe_split_with_sizes.default"},
    .shape = SplitSizesShape,
    .view = SplitSizesIndex,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.cat(Pieces(b, c, d), c.ConstInt(2))};
    },
};

KILN_OP(unbind) = {
    .schema = "unbind(Tensor self, int dim=0) -> Tensor[]",
    .torch = {"aten.unbind.int"},
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      if (absl::Status s = NeedsDims(call); !s.ok()) return s;
      const absl::StatusOr<int64_t> dim = DimArg(call, 1, call.type(0).rank());
      if (!dim.ok()) return dim.status();
      TensorType type = call.type(0);
      const int64_t pieces = call.syms().AsConst(type.sizes[*dim]).value_or(call.node().num_results);
      if (pieces > kMaxPieces) return absl::InvalidArgumentError(absl::StrCat("unbind of a dim of ", pieces));
      type.sizes = WithoutDim(type.sizes, *dim);
      type.strides = WithoutDim(type.strides, *dim);
      return TypeList(static_cast<size_t>(pieces), type);
    },
    .view =
        [](const Call& call, size_t result, std::span<const Sym> index) {
          const int64_t dim = Call::WrapDim(call.ConstInt(1), call.type(0).rank());
          return InsertDim(index, dim, call.syms().Const(static_cast<int64_t>(result)));
        },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.stack(Pieces(b, c, d), c.ConstInt(1))};
    },
};

}  // namespace kiln
