// Views: the same memory under another index. `view` gives the operand's index; nothing is copied.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/ops/view_rules.h"

namespace kiln {
namespace {

absl::StatusOr<TypeList> TransposeShape(const Call& call, int64_t a, int64_t b) {
  TensorType type = call.type(0);
  if (type.rank() > 0) {
    std::swap(type.sizes[a], type.sizes[b]);
    std::swap(type.strides[a], type.strides[b]);
  }
  return TypeList{std::move(type)};
}

std::vector<Sym> TransposeIndex(std::span<const Sym> index, int64_t a, int64_t b) {
  std::vector<Sym> result(index.begin(), index.end());
  if (!result.empty()) std::swap(result[a], result[b]);
  return result;
}

}  // namespace

KILN_OP(view) = {
    .schema = "view(Tensor self, SymInt[] size) -> Tensor",
    .torch = {"aten.view.default", "aten._unsafe_view.default"},
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      TensorType type = call.type(0);
      absl::StatusOr<std::vector<Sym>> sizes = InferViewSizes(call.syms(), type.sizes, call.Ints(1));
      if (!sizes.ok()) return sizes.status();
      const std::optional<std::vector<Sym>> strides = ViewStrides(call.syms(), type, *sizes);
      type.strides = strides ? *strides : ContiguousStrides(call.syms(), *sizes);
      type.sizes = *std::move(sizes);
      return TypeList{std::move(type)};
    },
    .view =
        [](const Call& call, size_t, std::span<const Sym> index) {
          return ReshapeIndex(call.syms(), index, call.result().sizes, call.type(0).sizes);
        },
};

KILN_OP(t) = {
    .schema = "t(Tensor self) -> Tensor",
    .torch = {"aten.t.default"},
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      if (call.type(0).rank() > 2) return absl::InvalidArgumentError("t takes at most 2 dims");
      return TransposeShape(call, 0, call.type(0).rank() - 1);
    },
    .view = [](const Call&, size_t,
               std::span<const Sym> index) { return TransposeIndex(index, 0, static_cast<int64_t>(index.size()) - 1); },
};

KILN_OP(transpose) = {
    .schema = "transpose(Tensor self, int dim0, int dim1) -> Tensor",
    .torch = {"aten.transpose.int"},
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      const absl::StatusOr<int64_t> a = DimArg(call, 1, call.type(0).rank()), b = DimArg(call, 2, call.type(0).rank());
      if (!a.ok() || !b.ok()) return a.ok() ? b.status() : a.status();
      return TransposeShape(call, *a, *b);
    },
    .view =
        [](const Call& call, size_t, std::span<const Sym> index) {
          const int64_t rank = call.type(0).rank();
          return TransposeIndex(index, Call::WrapDim(call.ConstInt(1), rank), Call::WrapDim(call.ConstInt(2), rank));
        },
};

KILN_OP(expand) = {
    .schema = "expand(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor",
    .torch = {"aten.expand.default"},
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
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
          return absl::InvalidArgumentError(absl::StrCat("expand: dim ", d, " of size ", syms.ToString(own)));
        }
        if (!broadcast) type.strides[d] = from.strides[d - added];
      }
      return TypeList{std::move(type)};
    },
    .view =
        [](const Call& call, size_t, std::span<const Sym> index) {
          return BroadcastIndex(call.syms(), index, call.result().sizes, call.type(0).sizes);
        },
};

}  // namespace kiln
