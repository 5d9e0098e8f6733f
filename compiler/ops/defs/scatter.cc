// Elements put, or folded, where other tensors' elements say, in the order of the updates: the same result for any
// number of threads, and eager's order where eager has one. Low-precision results are rounded after each update, as
// they are in eager.
//
// Every index is checked: one that is out of range sets the kernel's error word, and the host raises.
#include <algorithm>
#include <optional>
#include <utility>

#include "compiler/ops/index_rules.h"
#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/ops/view_rules.h"
#include "compiler/ops/vjp_rules.h"

namespace kiln {
namespace {

using Fold = std::function<Expr(Expr stored, Expr x)>;

// Eager clones self.
absl::StatusOr<TypeList> LikeSelf(const Call& call) {
  TensorType type = call.type(0);
  type.strides = DenseStridesLike(call.syms(), type);
  return TypeList{std::move(type)};
}

Results Self(Element& e) { return {e.At(0, e.index())}; }

// The update that folds x into what is at `index`.
Updated Put(const Update& at, std::vector<Sym> index, Expr x, const Fold& fold) {
  if (fold) x = fold(Expr(at.e.b(), at.stored(index)), x);
  return {.index = std::move(index), .results = {x.id()}};
}

Expr Sum(Expr stored, Expr x) { return stored + x; }

// Updates that change the index along `dim` alone. A dim of which they may not reach all elements is gone along in
// order as well.
OrderSpec AlongDim(const Call& call, std::vector<Sym> sizes, int64_t dim) {
  OrderSpec spec{.sizes = std::move(sizes)};
  for (int64_t d = 0; d < static_cast<int64_t>(spec.sizes.size()); ++d) {
    (d == dim || spec.sizes[d] != call.result().sizes[d] ? spec.dims : spec.result_dims).push_back(d);
  }
  return spec;
}

int64_t Dim(const Call& call) { return Call::WrapDim(call.ConstInt(1), call.type(0).rank()); }

// --- scatter(self, dim, index, src): self[.., index[p], ..] = src[p] ---

bool SupportsScatter(const Call& call) {
  return IsIndexType(call.type(2).dtype) && call.type(0).rank() > 0 && call.type(2).rank() == call.type(0).rank() &&
         (!call.is_tensor(3) || call.type(3).rank() == call.type(0).rank());
}

OrderSpec Scatter(const Call& call, const Fold& fold) {
  const int64_t dim = Dim(call);
  OrderSpec spec = AlongDim(call, call.type(2).sizes, dim);
  spec.update = [=](const Update& at) {
    const Sym to = CheckedIndex(at.e, IndexOperand(at.e, 2, at.e.index()), at.e.call().type(0).sizes[dim], false);
    const loop::ValueId x = at.e.call().is_tensor(3) ? at.e.At(3, at.e.index()) : at.e[3];
    return Put(at, WithDim(at.e.index(), dim, to), Expr(at.e.b(), x), fold);
  };
  return spec;
}

std::optional<Fold> ScatterReduction(const Call& call) {
  const std::string_view reduce = call.String(4);
  if (!call.Bool(5, true)) return std::nullopt;
  if (reduce == "sum") return Sum;
  if (reduce == "prod") return [](Expr stored, Expr x) { return stored * x; };
  if (reduce == "amax") return [](Expr stored, Expr x) { return Max(stored, x); };
  if (reduce == "amin") return [](Expr stored, Expr x) { return Min(stored, x); };
  return std::nullopt;
}

// --- index_add, index_copy(self, dim, index, source): self[.., index[i], ..] from source[.., i, ..] ---

bool SupportsIndexAdd(const Call& call) {
  return IsIndexType(call.type(2).dtype) && call.type(0).rank() > 0 && call.type(2).rank() <= 1 &&
         call.type(3).rank() == call.type(0).rank();
}

OrderSpec AlongIndex(const Call& call, const Fold& fold, bool wrap) {
  const int64_t dim = Dim(call);
  OrderSpec spec = AlongDim(call, call.type(3).sizes, dim);
  spec.update = [=](const Update& at) {
    const std::vector<Sym> where =
        at.e.call().type(2).rank() == 0 ? std::vector<Sym>{} : std::vector{at.e.index()[dim]};
    const Sym to = CheckedIndex(at.e, IndexOperand(at.e, 2, where), at.e.call().type(0).sizes[dim], wrap);
    return Put(at, WithDim(at.e.index(), dim, to), Expr(at.e.b(), at.e.At(3, at.e.index())), fold);
  };
  return spec;
}

// --- index_put(self, indices, values, accumulate): self[indices] from values ---

bool SupportsIndexPut(const Call& call) {
  if (!SupportsIndex(call) || (call.Bool(3) && call.type(0).dtype == DType::kBool)) return false;
  const absl::StatusOr<std::vector<Sym>> sizes = IndexedShape(call);
  return sizes.ok() && call.type(2).sizes.size() <= sizes->size();
}

OrderSpec IndexPut(const Call& call) {
  const IndexPlan plan = PlanIndex(call);
  OrderSpec spec{.sizes = *IndexedShape(call)};  // SupportsIndexPut has seen it
  for (size_t d = 0; d < plan.item.size(); ++d) {
    if (!plan.item[d]) spec.result_dims.push_back(static_cast<int64_t>(d));
  }
  for (size_t k = 0; k < plan.broadcast_rank; ++k) spec.dims.push_back(static_cast<int64_t>(plan.position + k));
  const Fold fold = call.Bool(3) ? Fold(Sum) : nullptr;
  spec.update = [=, sizes = spec.sizes](const Update& at) {
    const std::vector<Sym> values_at =
        BroadcastIndex(at.e.call().syms(), at.e.index(), sizes, at.e.call().type(2).sizes);
    return Put(at, IndexedPlace(at.e, plan, sizes), Expr(at.e.b(), at.e.At(2, values_at)), fold);
  };
  return spec;
}

}  // namespace

KILN_OP(embedding_dense_backward) = {
    .schema =
        "embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, "
        "bool scale_grad_by_freq) -> Tensor",
    .torch = {"aten.embedding_dense_backward.default"},
    .promote = Promote::kResult,
    .dtypes = kFloats,
    .supports =
        [](const Call& call) {
          return IsIndexType(call.type(1).dtype) && IsKnown(call, 3) && !call.Bool(4) && call.type(0).rank() > 0;
        },
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      const TensorType& grad = call.type(0);
      if (grad.rank() == 0) return absl::InvalidArgumentError("embedding_dense_backward: a gradient of 0 dims");
      return TypeList{ContiguousType(call.syms(), grad.dtype, grad.device, {call.Int(2), grad.sizes.back()})};
    },
    .lower = [](Element& e) -> Results { return {e.b().ConstBits(e.compute(), 0)}; },
    .order = [](const Call& call) -> OrderSpec {
      OrderSpec spec{.sizes = call.type(0).sizes, .result_dims = {1}};
      for (size_t d = 0; d + 1 < spec.sizes.size(); ++d) spec.dims.push_back(static_cast<int64_t>(d));
      spec.update = [](const Update& at) -> Updated {
        const Expr row = IndexOperand(at.e, 1, at.e.index().first(at.e.index().size() - 1));
        const Sym to = CheckedIndex(at.e, row, at.e.call().result().sizes[0], /*wrap=*/false);
        Updated updated = Put(at, {to, at.e.index().back()}, Expr(at.e.b(), at.e.At(0, at.e.index())), Sum);
        const int64_t padding = at.e.call().ConstInt(3);
        if (padding >= 0) updated.mask = (row != static_cast<double>(padding)).id();
        return updated;
      };
      return spec;
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      const ValueId rows = b.embedding(d[0], c.value(1));
      const ValueId read = b.unsqueeze(b.ne(c.value(1), c.arg(3)), -1);
      return {b.where(read, rows, 0.0), kNoValue};
    },
};

KILN_OP(index_put) = {
    .schema = "index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
    .torch = {"aten.index_put.default", "aten._unsafe_index_put.default"},
    .promote = Promote::kResult,
    .supports = SupportsIndexPut,
    .shape = LikeSelf,
    .lower = Self,
    .order = IndexPut,
};

KILN_OP(scatter) = {
    .schema = "scatter(Tensor self, int dim, Tensor index, Tensor|Scalar src) -> Tensor",
    .torch = {"aten.scatter.src", "aten.scatter.value"},
    .promote = Promote::kResult,
    .supports = SupportsScatter,
    .shape = LikeSelf,
    .lower = Self,
    .order = [](const Call& call) { return Scatter(call, nullptr); },
};

KILN_OP(scatter_add) = {
    .schema = "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    .torch = {"aten.scatter_add.default"},
    .promote = Promote::kResult,
    .dtypes = kNumbers,
    .supports = SupportsScatter,
    .shape = LikeSelf,
    .lower = Self,
    .order = [](const Call& call) { return Scatter(call, Sum); },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {d[0], kNoValue, b.gather(d[0], c.arg(1), c.value(2))};
    },
};

KILN_OP(scatter_reduce) = {
    .schema =
        "scatter_reduce(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> "
        "Tensor",
    .torch = {"aten.scatter_reduce.two"},
    .promote = Promote::kResult,
    .dtypes = kNumbers,
    .supports = [](const Call& call) { return SupportsScatter(call) && ScatterReduction(call).has_value(); },
    .shape = LikeSelf,
    .lower = Self,
    .order = [](const Call& call) { return Scatter(call, *ScatterReduction(call)); },
};

KILN_OP(index_add) = {
    .schema = "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
    .torch = {"aten.index_add.default"},
    .promote = Promote::kResult,
    .dtypes = kNumbers,
    .supports = [](const Call& call) { return SupportsIndexAdd(call) && IsKnown(call, 4) && call.Number(4, 1) == 1; },
    .shape = LikeSelf,
    .lower = Self,
    .order = [](const Call& call) { return AlongIndex(call, Sum, /*wrap=*/false); },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {d[0], kNoValue, b.index_select(d[0], c.arg(1), c.value(2))};
    },
};

KILN_OP(index_copy) = {
    .schema = "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
    .torch = {"aten.index_copy.default"},
    .promote = Promote::kResult,
    .supports = SupportsIndexAdd,
    .shape = LikeSelf,
    .lower = Self,
    .order = [](const Call& call) { return AlongIndex(call, nullptr, /*wrap=*/false); },
};

}  // namespace kiln
