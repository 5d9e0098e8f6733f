// Elements picked by other tensors' elements, and the patterns of triangles.
//
// Every index is checked: one that is out of range sets the kernel's error word, and the host raises.
#include <utility>

#include "compiler/ops/index_rules.h"
#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_builder.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/ops/vjp_rules.h"

namespace kiln {
namespace {

template <size_t I>
bool HasIntegerIndex(const Call& call) {
  return IsIndexType(call.type(I).dtype);
}

absl::StatusOr<TypeList> IndexShape(const Call& call) {
  if (!SupportsIndex(call)) return AsImported(call);  // a mask: the data decides the shape
  absl::StatusOr<std::vector<Sym>> sizes = IndexedShape(call);
  if (!sizes.ok()) return sizes.status();
  const TensorType& self = call.type(0);
  return TypeList{ContiguousType(call.syms(), self.dtype, self.device, *std::move(sizes))};
}

// --- tril, triu ---

// Keeps column - row <= diagonal (lower) or >= diagonal (upper).
Results LowerTriangle(Element& e, bool lower) {
  SymContext& syms = e.call().syms();
  const size_t rank = e.index().size();
  const Sym row = e.index()[rank - 2], column = e.index()[rank - 1], edge = syms.Add(row, e.call().Int(1));
  const Expr keep = lower ? LessEqual(e, column, edge) : LessEqual(e, edge, column);
  return {e.At(0, e.index(), 0, keep.id())};
}

absl::StatusOr<TypeList> TriangleShape(const Call& call) {
  const TensorType& self = call.type(0);
  if (self.rank() < 2) return absl::InvalidArgumentError("a triangle needs at least 2 dims");
  return TypeList{ContiguousType(call.syms(), self.dtype, self.device, self.sizes)};
}

}  // namespace

// weight[indices]; padding_idx and the rest only matter to the gradient.
KILN_OP(embedding) = {
    .schema =
        "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, "
        "bool sparse=False) -> Tensor",
    .torch = {"aten.embedding.default"},
    .promote = Promote::kResult,
    .supports = HasIntegerIndex<1>,
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      const TensorType& weight = call.type(0);
      if (weight.rank() != 2) return absl::InvalidArgumentError("embedding: the weight has 2 dims");
      std::vector<Sym> sizes = call.type(1).sizes;
      sizes.push_back(weight.sizes[1]);
      return TypeList{ContiguousType(call.syms(), weight.dtype, weight.device, std::move(sizes))};
    },
    .lower = [](Element& e) -> Results {
      const std::span<const Sym> index = e.index();
      const Expr row = IndexOperand(e, 1, index.first(index.size() - 1));
      const Sym at[] = {CheckedIndex(e, row, e.call().type(0).sizes[0], /*wrap=*/false), index.back()};
      return {e.At(0, at)};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.embedding_dense_backward(d[0], c.value(1), c.type(0).sizes[0], c.arg(2), c.arg(3)), kNoValue};
    },
};

KILN_OP(index) = {
    .schema = "index(Tensor self, Tensor?[] indices) -> Tensor",
    .torch = {"aten.index.Tensor", "aten._unsafe_index.Tensor"},
    .promote = Promote::kResult,
    .supports = SupportsIndex,
    .shape = IndexShape,
    .lower = [](Element& e) -> Results {
      return {e.At(0, IndexedPlace(e, PlanIndex(e.call()), e.call().result().sizes))};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      Grads grads = {b.index_put(b.full(c.type(0).sizes, 0.0, c.type(0).dtype, std::nullopt, c.type(0).device),
                                 c.arg(1), d[0], true)};
      for (const ValueId v : c.Values(1)) {
        if (v != kNoValue) grads.push_back(kNoValue);
      }
      return grads;
    },
};

KILN_OP(index_select) = {
    .schema = "index_select(Tensor self, int dim, Tensor index) -> Tensor",
    .torch = {"aten.index_select.default"},
    .promote = Promote::kResult,
    .supports = [](const Call& call) { return IsIndexType(call.type(2).dtype) && call.type(0).rank() > 0; },
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      const TensorType& self = call.type(0);
      const absl::StatusOr<int64_t> dim = DimArg(call, 1, self.rank());
      if (!dim.ok()) return dim.status();
      std::vector<Sym> sizes = self.sizes;
      if (!sizes.empty()) sizes[*dim] = Numel(call.syms(), call.type(2).sizes);
      return TypeList{ContiguousType(call.syms(), self.dtype, self.device, std::move(sizes))};
    },
    .lower = [](Element& e) -> Results {
      const int64_t dim = Call::WrapDim(e.call().ConstInt(1), e.call().type(0).rank());
      const std::vector<Sym> where = e.call().type(2).rank() == 0 ? std::vector<Sym>{} : std::vector{e.index()[dim]};
      const Sym at = CheckedIndex(e, IndexOperand(e, 2, where), e.call().type(0).sizes[dim], /*wrap=*/false);
      return {e.At(0, WithDim(e.index(), dim, at))};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      const ValueId zeros = b.full(c.type(0).sizes, 0.0, c.type(0).dtype, std::nullopt, c.type(0).device);
      return {b.index_add(zeros, c.arg(1), c.value(2), d[0]), kNoValue};
    },
};

KILN_OP(gather) = {
    .schema = "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
    .torch = {"aten.gather.default"},
    .promote = Promote::kResult,
    .supports =
        [](const Call& call) {
          return IsIndexType(call.type(2).dtype) && call.type(0).rank() > 0 &&
                 call.type(0).rank() == call.type(2).rank();
        },
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      const absl::StatusOr<int64_t> dim = DimArg(call, 1, call.type(0).rank());
      if (!dim.ok()) return dim.status();
      return TypeList{ContiguousType(call.syms(), call.type(0).dtype, call.type(0).device, call.type(2).sizes)};
    },
    .lower = [](Element& e) -> Results {
      const int64_t dim = Call::WrapDim(e.call().ConstInt(1), e.call().type(0).rank());
      const Sym at = CheckedIndex(e, IndexOperand(e, 2, e.index()), e.call().type(0).sizes[dim], /*wrap=*/false);
      return {e.At(0, WithDim(e.index(), dim, at))};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      const ValueId zeros = b.full(c.type(0).sizes, 0.0, c.type(0).dtype, std::nullopt, c.type(0).device);
      return {b.scatter_add(zeros, c.arg(1), c.value(2), d[0]), kNoValue};
    },
};

KILN_OP(tril) = {
    .schema = "tril(Tensor self, SymInt diagonal=0) -> Tensor",
    .torch = {"aten.tril.default"},
    .promote = Promote::kResult,
    .shape = TriangleShape,
    .lower = [](Element& e) { return LowerTriangle(e, true); },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.tril(d[0], c.arg(1))};
    },
};

KILN_OP(triu) = {
    .schema = "triu(Tensor self, SymInt diagonal=0) -> Tensor",
    .torch = {"aten.triu.default"},
    .promote = Promote::kResult,
    .shape = TriangleShape,
    .lower = [](Element& e) { return LowerTriangle(e, false); },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.triu(d[0], c.arg(1))};
    },
};

}  // namespace kiln
