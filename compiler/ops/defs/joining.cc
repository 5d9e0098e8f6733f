// Tensors put together, padded, repeated and moved: each element of the result comes from one place of one operand, or
// is a constant. They copy in eager, so they are no views.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_builder.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/promote.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/ops/vjp_rules.h"

namespace kiln {
namespace {

// --- cat, stack ---

// torch.cat skips tensors of shape [0] among tensors of more dims.
bool IsSkipped(const Call& call, const TensorType& type) {
  return type.rank() == 1 && call.syms().IsConst(type.sizes[0], 0);
}

std::vector<const TensorType*> ListTypes(const Call& call, size_t i) {
  std::vector<const TensorType*> types;
  for (ValueId v : call.Values(i)) {
    if (v != kNoValue) types.push_back(call.graph().type(v));
  }
  return types;
}

// The layout that all operands have in common, else contiguous.
std::vector<Sym> CatStrides(SymContext& syms, std::span<const TensorType* const> types, std::span<const Sym> sizes) {
  const bool channels_last = std::ranges::all_of(
      types, [&](const TensorType* t) { return IsChannelsLast(syms, *t) && !IsContiguous(syms, *t); });
  return channels_last ? ChannelsLastStrides(syms, sizes) : ContiguousStrides(syms, sizes);
}

absl::StatusOr<TypeList> CatShape(const Call& call) {
  SymContext& syms = call.syms();
  std::vector<const TensorType*> types = ListTypes(call, 0);
  if (types.empty()) return absl::InvalidArgumentError("cat of no tensors");
  const DType dtype = PromotedDType(call);
  const TensorType* first = types[0];
  std::erase_if(types, [&](const TensorType* t) { return IsSkipped(call, *t); });
  if (types.empty()) return TypeList{ContiguousType(syms, dtype, first->device, first->sizes)};
  TensorType result{.dtype = dtype, .device = types[0]->device, .sizes = types[0]->sizes, .strides = {}};
  const absl::StatusOr<int64_t> dim = DimArg(call, 1, result.rank());
  if (!dim.ok()) return dim.status();
  if (result.rank() == 0) return absl::InvalidArgumentError("cat of tensors of 0 dims");
  for (const TensorType* type : std::span(types).subspan(1)) {
    if (type->rank() != result.rank()) return absl::InvalidArgumentError("cat of tensors of different ranks");
    for (int64_t d = 0; d < result.rank(); ++d) {
      const Sym a = result.sizes[d], b = type->sizes[d];
      if (d != *dim && syms.AsConst(a) && syms.AsConst(b) && a != b) {
        return absl::InvalidArgumentError(
            absl::StrCat("cat: sizes ", syms.ToString(a), " and ", syms.ToString(b), " of dim ", d));
      }
    }
    result.sizes[*dim] = syms.Add(result.sizes[*dim], type->sizes[*dim]);
  }
  result.strides = CatStrides(syms, types, result.sizes);
  return TypeList{std::move(result)};
}

// From the last piece to the first: value = i < end of piece k ? piece k : value. Every piece is only read where it is
// chosen.
Results LowerCat(Element& e) {
  const Call& call = e.call();
  SymContext& syms = call.syms();
  const std::vector<ValueId> items = call.Values(0);
  const int64_t dim = Call::WrapDim(call.ConstInt(1), call.result().rank());
  const Sym i = e.index()[dim];
  struct Piece {
    size_t item;
    Sym begin, end;
  };
  std::vector<Piece> pieces;
  Sym begin{};
  for (size_t k = 0; k < items.size(); ++k) {
    const TensorType& type = *call.graph().type(items[k]);
    if (IsSkipped(call, type) && call.result().rank() != 1) continue;
    const Sym end = syms.Add(begin, type.sizes[dim]);
    if (end != begin) pieces.push_back({k, begin, end});
    begin = end;
  }
  std::optional<Expr> value;
  for (size_t p = pieces.size(); p-- > 0;) {
    const Piece& piece = pieces[p];
    const std::vector<Sym> at = WithDim(e.index(), dim, syms.Sub(i, piece.begin));
    if (pieces.size() == 1) return {e.At(0, at, piece.item)};
    const Expr below = Less(e, i, piece.end);
    const Expr inside = p == 0                   ? below
                        : p + 1 == pieces.size() ? LessEqual(e, piece.begin, i)
                                                 : below & LessEqual(e, piece.begin, i);
    const Expr element(e.b(), e.At(0, at, piece.item, inside.id()));
    value = value ? below.Select(element, *value) : element;
  }
  if (value) return {value->id()};
  return {e.b().ConstBits(e.compute(), 0)};  // of an empty result
}

absl::StatusOr<TypeList> StackShape(const Call& call) {
  SymContext& syms = call.syms();
  const std::vector<const TensorType*> types = ListTypes(call, 0);
  if (types.empty()) return absl::InvalidArgumentError("stack of no tensors");
  const TensorType& first = *types[0];
  const absl::StatusOr<int64_t> dim = DimArg(call, 1, first.rank() + 1);
  if (!dim.ok()) return dim.status();
  for (const TensorType* type : types) {
    if (type->rank() != first.rank()) return absl::InvalidArgumentError("stack of tensors of different ranks");
  }
  std::vector<Sym> sizes = InsertDim(first.sizes, *dim, syms.Const(static_cast<int64_t>(types.size())));
  return TypeList{ContiguousType(syms, PromotedDType(call), first.device, std::move(sizes))};
}

Results LowerStack(Element& e) {
  const Call& call = e.call();
  const int64_t dim = Call::WrapDim(call.ConstInt(1), call.result().rank());
  const std::vector<Sym> at = WithoutDim(e.index(), dim);
  const size_t count = call.Values(0).size();
  if (count == 1) return {e.At(0, at)};
  const Expr i = IndexExpr(e, e.index()[dim]);
  std::optional<Expr> value;
  for (size_t k = count; k-- > 0;) {
    const Expr here = i == static_cast<double>(k);
    const Expr element(e.b(), e.At(0, at, k, here.id()));
    value = value ? here.Select(element, *value) : element;
  }
  return {value->id()};
}

// --- constant_pad_nd(self, pad, value): pad is (before, after) from the last dim backwards ---

absl::StatusOr<TypeList> PadShape(const Call& call) {
  SymContext& syms = call.syms();
  TensorType type = call.type(0);
  const std::vector<Sym> pad = call.Ints(1);
  if (pad.size() % 2 != 0 || pad.size() / 2 > type.sizes.size()) {
    return absl::InvalidArgumentError("constant_pad_nd: pad is two numbers a dim");
  }
  for (size_t k = 0; k + 1 < pad.size(); k += 2) {
    Sym& size = type.sizes[type.sizes.size() - 1 - k / 2];
    size = syms.Add(size, syms.Add(pad[k], pad[k + 1]));
    if (syms.ProvablyLess(size, Sym{})) return absl::InvalidArgumentError("constant_pad_nd: a negative size");
  }
  if (std::ranges::all_of(pad, [&](Sym p) { return syms.ProvablyLessEqual(p, Sym{}); })) {
    type.strides = DenseStridesLike(syms, type);  // eager clones the part that is left
    return TypeList{std::move(type)};
  }
  const bool channels_last = IsChannelsLast(syms, call.type(0)) && !IsContiguous(syms, call.type(0));
  type.strides = channels_last ? ChannelsLastStrides(syms, type.sizes) : ContiguousStrides(syms, type.sizes);
  return TypeList{std::move(type)};
}

void AndInto(std::optional<Expr>& mask, Expr condition) { mask = mask ? *mask & condition : condition; }

Results LowerPad(Element& e) {
  const Call& call = e.call();
  SymContext& syms = call.syms();
  const std::vector<Sym> pad = call.Ints(1);
  std::vector<Sym> at(e.index().begin(), e.index().end());
  std::optional<Expr> inside;
  for (size_t k = 0; k + 1 < pad.size(); k += 2) {
    const size_t d = at.size() - 1 - k / 2;
    at[d] = syms.Sub(at[d], pad[k]);
    // No test where the padding cannot be positive on that side.
    if (!syms.ProvablyLessEqual(pad[k], Sym{})) AndInto(inside, LessEqual(e, Sym{}, at[d]));
    if (!syms.ProvablyLessEqual(pad[k + 1], Sym{})) AndInto(inside, Less(e, at[d], call.type(0).sizes[d]));
  }
  if (!inside) return {e.At(0, at)};
  const Expr element(e.b(), e.At(0, at, 0, inside->id()));
  return {inside->Select(element, NumberAs(e, 2, e.compute())).id()};
}

// --- gradients and functional writes of select and slice ---

absl::StatusOr<TypeList> InputSizesShape(const Call& call) {
  return TypeList{ContiguousType(call.syms(), call.type(0).dtype, call.type(0).device, call.Ints(1))};
}

// Whether position i of a dim lies in a slice, and where in it.
struct InSlice {
  std::optional<Expr> inside;  // nothing: always
  Sym at;
};

InSlice FindInSlice(Element& e, Sym i, const SliceBounds& bounds) {
  SymContext& syms = e.call().syms();
  InSlice found;
  const Sym from_start = syms.Sub(i, bounds.start);
  if (!syms.IsConst(bounds.start, 0)) AndInto(found.inside, LessEqual(e, bounds.start, i));
  found.at = from_start;
  if (!syms.IsConst(bounds.step, 1)) {
    AndInto(found.inside, IndexExpr(e, syms.Mod(from_start, bounds.step)) == 0.0);
    found.at = syms.FloorDiv(from_start, bounds.step);
  }
  const std::optional<Var> axis = syms.AsVar(i);
  const std::optional<Sym> extent = axis ? syms.Extent(*axis) : std::nullopt;
  const bool to_the_end = extent && syms.IsConst(bounds.step, 1) && syms.Add(bounds.start, bounds.length) == *extent;
  if (!to_the_end) AndInto(found.inside, Less(e, found.at, bounds.length));
  return found;
}

Results LowerSliceBackward(Element& e) {
  const Call& call = e.call();
  const int64_t dim = Call::WrapDim(call.ConstInt(2), call.result().rank());
  const InSlice found = FindInSlice(e, e.index()[dim], NormalizeSlice(call, call.result().sizes[dim], 3, 4, 5));
  const std::vector<Sym> at = WithDim(e.index(), dim, found.at);
  return {e.At(0, at, 0, found.inside ? found.inside->id() : loop::kNone)};
}

Results LowerSliceScatter(Element& e) {
  const Call& call = e.call();
  const int64_t dim = Call::WrapDim(call.ConstInt(2), call.result().rank());
  const InSlice found = FindInSlice(e, e.index()[dim], NormalizeSlice(call, call.result().sizes[dim], 3, 4, 5));
  const std::vector<Sym> at = WithDim(e.index(), dim, found.at);
  if (!found.inside) return {e.At(1, at)};
  const Expr element(e.b(), e.At(1, at, 0, found.inside->id()));
  return {found.inside->Select(element, Operand(e, 0)).id()};
}

// --- repeat, flip, roll ---

absl::StatusOr<TypeList> RepeatShape(const Call& call) {
  SymContext& syms = call.syms();
  const TensorType& self = call.type(0);
  std::vector<Sym> sizes = call.Ints(1);
  if (sizes.size() < self.sizes.size()) return absl::InvalidArgumentError("repeat: fewer repeats than dims");
  const size_t added = sizes.size() - self.sizes.size();
  for (size_t d = added; d < sizes.size(); ++d) sizes[d] = syms.Mul(sizes[d], self.sizes[d - added]);
  return TypeList{ContiguousType(syms, self.dtype, self.device, std::move(sizes))};
}

Results LowerRepeat(Element& e) {
  SymContext& syms = e.call().syms();
  const TensorType& self = e.call().type(0);
  std::vector<Sym> at;
  const size_t added = e.index().size() - self.sizes.size();
  for (size_t d = 0; d < self.sizes.size(); ++d) at.push_back(syms.Mod(e.index()[added + d], self.sizes[d]));
  return {e.At(0, at)};
}

Results LowerFlip(Element& e) {
  const Call& call = e.call();
  SymContext& syms = call.syms();
  std::vector<Sym> at(e.index().begin(), e.index().end());
  for (int64_t dim : call.ConstInts(1)) {
    const int64_t d = Call::WrapDim(dim, call.type(0).rank());
    if (d < static_cast<int64_t>(at.size())) at[d] = syms.Sub(syms.Sub(call.type(0).sizes[d], syms.Const(1)), at[d]);
  }
  return {e.At(0, at)};
}

// Element i comes from i - shift, cyclically; without dims the tensor is rolled as if flat, which `supports` leaves out
// for tensors of more than one dim.
Results LowerRoll(Element& e) {
  const Call& call = e.call();
  SymContext& syms = call.syms();
  std::vector<Sym> at(e.index().begin(), e.index().end());
  const std::vector<Sym> shifts = call.Ints(1);
  std::vector<int64_t> dims = call.ConstInts(2);
  if (dims.empty()) dims = {0};
  for (size_t k = 0; k < dims.size(); ++k) {
    const int64_t d = Call::WrapDim(dims[k], call.type(0).rank());
    const Sym size = call.type(0).sizes[d];
    at[d] = syms.Mod(syms.Sub(at[d], syms.Mod(shifts[k], size)), size);
  }
  return {e.At(0, at)};
}

bool SupportsRoll(const Call& call) {
  const std::vector<Sym> shifts = call.Ints(1);
  std::vector<int64_t> dims = call.ConstInts(2);
  if (dims.empty()) return call.type(0).rank() == 1 && shifts.size() == 1;
  if (dims.size() != shifts.size()) return false;
  const int64_t rank = call.type(0).rank();
  return std::ranges::all_of(dims,
                             [&](int64_t d) { return Call::WrapDim(d, rank) >= 0 && Call::WrapDim(d, rank) < rank; });
}

}  // namespace

KILN_OP(cat) = {
    .schema = "cat(Tensor[] tensors, int dim=0) -> Tensor",
    .torch = {"aten.cat.default"},
    .promote = Promote::kDefault,
    .shape = CatShape,
    .lower = LowerCat,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      Grads grads;
      const int64_t dim = Call::WrapDim(c.ConstInt(1), c.result().rank());
      Sym begin{};
      for (const ValueId v : c.Values(0)) {
        const TensorType type = b.type(v);
        if (IsSkipped(c, type) && c.result().rank() != 1) {
          grads.push_back(kNoValue);
          continue;
        }
        const Sym end = b.syms().Add(begin, type.sizes[dim]);
        grads.push_back(b.slice(d[0], dim, begin, end));
        begin = end;
      }
      return grads;
    },
};

KILN_OP(stack) = {
    .schema = "stack(Tensor[] tensors, int dim=0) -> Tensor",
    .torch = {"aten.stack.default"},
    .promote = Promote::kDefault,
    .shape = StackShape,
    .lower = LowerStack,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      Grads grads;
      for (size_t i = 0; i < c.Values(0).size(); ++i)
        grads.push_back(b.select(d[0], c.arg(1), static_cast<int64_t>(i)));
      return grads;
    },
};

KILN_OP(constant_pad_nd) = {
    .schema = "constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor",
    .torch = {"aten.constant_pad_nd.default"},
    .promote = Promote::kResult,
    .shape = PadShape,
    .lower = LowerPad,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      std::vector<Sym> back;
      for (const Sym pad : c.Ints(1)) back.push_back(b.syms().Sub(b.syms().Const(0), pad));
      return {b.constant_pad_nd(d[0], back, 0.0)};
    },
};

KILN_OP(slice_backward) = {
    .schema =
        "slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, "
        "SymInt step) -> Tensor",
    .torch = {"aten.slice_backward.default"},
    .promote = Promote::kResult,
    .shape = InputSizesShape,
    .lower = LowerSliceBackward,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.slice(d[0], c.arg(2), c.arg(3), c.arg(4), c.arg(5))};
    },
};

KILN_OP(select_backward) = {
    .schema = "select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor",
    .torch = {"aten.select_backward.default"},
    .promote = Promote::kResult,
    .shape = InputSizesShape,
    .lower = [](Element& e) -> Results {
      const Call& call = e.call();
      const int64_t dim = Call::WrapDim(call.ConstInt(2), call.result().rank());
      const Expr here =
          IndexExpr(e, e.index()[dim]) == IndexExpr(e, WrapIndex(call.syms(), call.Int(3), call.result().sizes[dim]));
      return {e.At(0, WithoutDim(e.index(), dim), 0, here.id())};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.select(d[0], c.arg(2), c.arg(3))};
    },
};

KILN_OP(slice_scatter) = {
    .schema =
        "slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, "
        "SymInt step=1) -> Tensor",
    .torch = {"aten.slice_scatter.default"},
    .promote = Promote::kResult,
    .shape = LikeArg<0>,
    .lower = LowerSliceScatter,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      const ValueId zeros = b.full(c.type(1).sizes, 0.0, c.type(1).dtype, std::nullopt, c.type(1).device);
      return {b.slice_scatter(d[0], zeros, c.arg(2), c.arg(3), c.arg(4), c.arg(5)),
              b.slice(d[0], c.arg(2), c.arg(3), c.arg(4), c.arg(5))};
    },
};

KILN_OP(select_scatter) = {
    .schema = "select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor",
    .torch = {"aten.select_scatter.default"},
    .promote = Promote::kResult,
    .shape = LikeArg<0>,
    .lower = [](Element& e) -> Results {
      const Call& call = e.call();
      const int64_t dim = Call::WrapDim(call.ConstInt(2), call.result().rank());
      const Expr here =
          IndexExpr(e, e.index()[dim]) == IndexExpr(e, WrapIndex(call.syms(), call.Int(3), call.result().sizes[dim]));
      const Expr element(e.b(), e.At(1, WithoutDim(e.index(), dim), 0, here.id()));
      return {here.Select(element, Operand(e, 0)).id()};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      const ValueId zeros = b.full(c.type(1).sizes, 0.0, c.type(1).dtype, std::nullopt, c.type(1).device);
      return {b.select_scatter(d[0], zeros, c.arg(2), c.arg(3)), b.select(d[0], c.arg(2), c.arg(3))};
    },
};

KILN_OP(repeat) = {
    .schema = "repeat(Tensor self, SymInt[] repeats) -> Tensor",
    .torch = {"aten.repeat.default"},
    .promote = Promote::kResult,
    .shape = RepeatShape,
    .lower = LowerRepeat,
};

KILN_OP(flip) = {
    .schema = "flip(Tensor self, int[] dims) -> Tensor",
    .torch = {"aten.flip.default"},
    .promote = Promote::kResult,
    .shape = LikeArg<0>,
    .lower = LowerFlip,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.flip(d[0], c.arg(1))};
    },
};

KILN_OP(roll) = {
    .schema = "roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor",
    .torch = {"aten.roll.default"},
    .promote = Promote::kResult,
    .supports = SupportsRoll,
    .shape = LikeArg<0>,
    .lower = LowerRoll,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      std::vector<Sym> back;
      for (const Sym shift : c.Ints(1)) back.push_back(b.syms().Sub(b.syms().Const(0), shift));
      return {b.roll(d[0], back, c.arg(2))};
    },
};

}  // namespace kiln
