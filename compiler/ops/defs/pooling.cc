// Averages over windows of images, forward and backward, and pixels moved between channels and space.
//
// A window is written out: a sum of as many elements as it has, in eager's order. Its backward gathers: an element of
// the gradient is the sum over the windows that hold it.
#include <algorithm>
#include <limits>
#include <optional>

#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_builder.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/ops/vjp_rules.h"

namespace kiln {
namespace {

constexpr int64_t kLargestWindow = 64;

struct WindowDim {
  int64_t kernel, stride, pad;
};

struct Windows {
  WindowDim rows, columns;
  bool ceil, count_pad;
  std::optional<double> divisor;
  bool inside() const { return !ceil && rows.pad == 0 && columns.pad == 0; }  // no window sticks out
};

// kernel_size, stride, padding, ceil_mode, count_include_pad and divisor_override, from argument `first` on.
Windows WindowsOf(const Call& call, size_t first) {
  const auto at = [&](size_t arg, size_t d) {
    const std::vector<int64_t> v = call.ConstInts(arg);
    return v.empty() ? 0 : v[std::min(d, v.size() - 1)];
  };
  const auto dim = [&](size_t d) {
    const bool has_stride = !call.ConstInts(first + 1).empty();
    return WindowDim{at(first, d), at(has_stride ? first + 1 : first, d), at(first + 2, d)};
  };
  Windows w{dim(0), dim(1), call.Bool(first + 3), call.Bool(first + 4, true), std::nullopt};
  if (!call.is_none(first + 5)) w.divisor = call.Number(first + 5);
  return w;
}

bool AreWindows(const Call& call, size_t image, size_t first) {
  const Windows w = WindowsOf(call, first);
  const int64_t rank = call.type(image).rank();
  return (rank == 3 || rank == 4) && w.rows.stride > 0 && w.columns.stride > 0 && w.rows.kernel > 0 &&
         w.columns.kernel > 0 && w.rows.kernel * w.columns.kernel <= kLargestWindow && w.divisor != 0.0;
}

Expr Within(Element& e, Sym index, Sym size) { return LessEqual(e, Sym{}, index) & Less(e, index, size); }

// How many elements of one dim count for window `at`.
Expr Extent(Element& e, const WindowDim& w, Sym at, Sym size, bool count_pad) {
  SymContext& syms = e.call().syms();
  const Sym start = syms.Sub(syms.Mul(at, syms.Const(w.stride)), syms.Const(w.pad));
  Expr low = IndexExpr(e, start);
  Expr high = Min(IndexExpr(e, syms.Add(start, syms.Const(w.kernel))), IndexExpr(e, syms.Add(size, syms.Const(w.pad))));
  if (!count_pad) low = Max(low, low.Const(0)), high = Min(high, IndexExpr(e, size));
  return high - low;
}

// What the sum over window (row, column) of an image of [.., height, width] is divided by.
Expr Divisor(Element& e, const Windows& w, Sym row, Sym column, std::span<const Sym> image) {
  const auto constant = [&](double v) { return Expr(e.b(), e.b().Const(e.compute(), v)); };
  if (w.divisor) return constant(*w.divisor);
  if (w.inside()) return constant(static_cast<double>(w.rows.kernel * w.columns.kernel));
  const Expr rows = Extent(e, w.rows, row, image[image.size() - 2], w.count_pad);
  const Expr columns = Extent(e, w.columns, column, image[image.size() - 1], w.count_pad);
  return (rows * columns).Cast(e.compute());
}

std::vector<Sym> Replaced(std::span<const Sym> index, Sym row, Sym column) {
  std::vector<Sym> result(index.begin(), index.end());
  result[result.size() - 2] = row, result[result.size() - 1] = column;
  return result;
}

Results LowerAveragePool(Element& e) {
  const Call& call = e.call();
  SymContext& syms = call.syms();
  const Windows w = WindowsOf(call, 1);
  const std::vector<Sym>& sizes = call.type(0).sizes;
  const Sym row = e.index()[e.index().size() - 2], column = e.index().back();
  const auto place = [&](const WindowDim& d, Sym at, int64_t k) {
    return syms.Add(syms.Mul(at, syms.Const(d.stride)), syms.Const(k - d.pad));
  };
  std::optional<Expr> sum;
  for (int64_t i = 0; i < w.rows.kernel; ++i) {
    for (int64_t j = 0; j < w.columns.kernel; ++j) {
      const Sym y = place(w.rows, row, i), x = place(w.columns, column, j);
      loop::ValueId mask = loop::kNone;
      if (!w.inside()) mask = (Within(e, y, sizes[sizes.size() - 2]) & Within(e, x, sizes.back())).id();
      const Expr element(e.b(), e.At(0, Replaced(e.index(), y, x), 0, mask));
      sum = sum ? *sum + element : element;
    }
  }
  return {(*sum / Divisor(e, w, row, column, sizes)).id()};
}

// The window that has an element `at` as its k-th, and whether there is one.
struct Holder {
  Sym window;
  Expr is_there;
};

Holder HolderOf(Element& e, const WindowDim& w, Sym at, int64_t k, Sym count) {
  SymContext& syms = e.call().syms();
  const Sym start = syms.Add(at, syms.Const(w.pad - k));
  const Sym window = syms.FloorDiv(start, syms.Const(w.stride));
  Expr is_there = Within(e, window, count);
  if (w.stride != 1) is_there = is_there & (IndexExpr(e, syms.Mod(start, syms.Const(w.stride))) == 0.0);
  return {window, is_there};
}

Results LowerAveragePoolBackward(Element& e) {
  const Call& call = e.call();
  const Windows w = WindowsOf(call, 2);
  const std::vector<Sym>&counts = call.type(0).sizes, &sizes = call.type(1).sizes;
  const Sym row = e.index()[e.index().size() - 2], column = e.index().back();
  std::optional<Expr> sum;
  for (int64_t i = w.rows.kernel; i-- > 0;) {
    for (int64_t j = w.columns.kernel; j-- > 0;) {
      const Holder y = HolderOf(e, w.rows, row, i, counts[counts.size() - 2]);
      const Holder x = HolderOf(e, w.columns, column, j, counts.back());
      const Expr is_there = y.is_there & x.is_there;
      const Expr grad(e.b(), e.At(0, Replaced(e.index(), y.window, x.window), 0, is_there.id()));
      const Expr part = is_there.Select(grad / Divisor(e, w, y.window, x.window, sizes), grad.Const(0));
      sum = sum ? *sum + part : part;
    }
  }
  return {sum->id()};
}

// Channels become pixels of blocks of r by r, or blocks become channels.
template <bool kUp>
absl::StatusOr<TypeList> PixelShape(const Call& call) {
  SymContext& syms = call.syms();
  const Sym r = syms.Const(call.ConstInt(1)), area = syms.Mul(r, r);
  std::vector<Sym> sizes = call.type(0).sizes;
  if (call.ConstInt(1) <= 0 || sizes.size() < 3) {
    return absl::InvalidArgumentError("a factor above 0 and a tensor of 3 dims or more, please");
  }
  const std::span<Sym> last = std::span(sizes).last(3);
  last[0] = kUp ? syms.FloorDiv(last[0], area) : syms.Mul(last[0], area);
  for (Sym& size : last.last(2)) size = kUp ? syms.Mul(size, r) : syms.FloorDiv(size, r);
  return TypeList{ContiguousType(syms, call.type(0).dtype, call.type(0).device, std::move(sizes))};
}

bool HasFactor(const Call& call) { return call.ConstInt(1) > 0 && call.type(0).rank() >= 3; }

}  // namespace

KILN_OP(avg_pool2d) = {
    .schema =
        "avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, "
        "bool count_include_pad=True, int? divisor_override=None) -> Tensor",
    .torch = {"aten.avg_pool2d.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .supports = [](const Call& call) { return AreWindows(call, 0, 1); },
    .shape = AsImported,
    .lower = LowerAveragePool,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.avg_pool2d_backward(d[0], c.value(0), c.arg(1), c.arg(2), c.arg(3), c.arg(4), c.arg(5), c.arg(6))};
    },
};

KILN_OP(avg_pool2d_backward) = {
    .schema =
        "avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, "
        "bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor",
    .torch = {"aten.avg_pool2d_backward.default"},
    .promote = Promote::kDefault,
    .dtypes = kFloats,
    .supports = [](const Call& call) { return AreWindows(call, 1, 2); },
    .shape = LikeArg<1>,
    .lower = LowerAveragePoolBackward,
};

// Channel c * r * r + i * r + j becomes pixel (i, j) of each block of r by r.
KILN_OP(pixel_shuffle) = {
    .schema = "pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
    .torch = {"aten.pixel_shuffle.default"},
    .promote = Promote::kDefault,
    .supports = HasFactor,
    .shape = PixelShape<true>,
    .lower = [](Element& e) -> Results {
      SymContext& syms = e.call().syms();
      const size_t rank = e.index().size();
      const Sym r = syms.Const(e.call().ConstInt(1)), y = e.index()[rank - 2], x = e.index()[rank - 1];
      std::vector<Sym> at = Replaced(e.index(), syms.FloorDiv(y, r), syms.FloorDiv(x, r));
      at[rank - 3] = syms.Add(syms.Mul(syms.Add(syms.Mul(at[rank - 3], r), syms.Mod(y, r)), r), syms.Mod(x, r));
      return {e.At(0, at)};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.pixel_unshuffle(d[0], c.arg(1))};
    },
};

KILN_OP(pixel_unshuffle) = {
    .schema = "pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
    .torch = {"aten.pixel_unshuffle.default"},
    .promote = Promote::kDefault,
    .supports = HasFactor,
    .shape = PixelShape<false>,
    .lower = [](Element& e) -> Results {
      SymContext& syms = e.call().syms();
      const size_t rank = e.index().size();
      const Sym r = syms.Const(e.call().ConstInt(1)), channel = e.index()[rank - 3];
      const Sym i = syms.Mod(syms.FloorDiv(channel, r), r), j = syms.Mod(channel, r);
      std::vector<Sym> at = Replaced(e.index(), syms.Add(syms.Mul(e.index()[rank - 2], r), i),
                                     syms.Add(syms.Mul(e.index()[rank - 1], r), j));
      at[rank - 3] = syms.FloorDiv(channel, syms.Mul(r, r));
      return {e.At(0, at)};
    },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.pixel_shuffle(d[0], c.arg(1))};
    },
};

KILN_OP(max_pool2d_with_indices) = {
    .schema =
        "max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, "
        "int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
    .torch = {"aten.max_pool2d_with_indices.default"},
    .traits = {.follows_layout = 1},
    .shape = AsImported,
    .no_grad = "the framework's own kernel, and so is its derivative",
};

// An external call; from a contiguous plane of known size it is a scatter of the gradients to where the maxima were, in
// eager's order, for which the operand itself is not needed and an index takes 16 bits.
KILN_OP(max_pool2d_with_indices_backward) = {
    .schema =
        "max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, "
        "int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor",
    .torch = {"aten.max_pool2d_with_indices_backward.default"},
    .promote = Promote::kNone,
    .dtypes = kFloats,
    .shape = AsImported,
    .narrow = [](GraphBuilder& g, const Call& call) -> Values {
      SymContext& syms = call.syms();
      const TensorType &grad = call.type(0), &result = call.result(), &indices = call.type(7);
      const std::span<const Sym> sizes(result.sizes);
      if (!IsFloat(result.dtype) || result.rank() < 3 || indices.dtype != DType::kInt64) return {};
      const std::optional<int64_t> plane = syms.AsConst(Numel(syms, sizes.last(2)));
      const bool contiguous = IsContiguous(syms, grad) && IsContiguous(syms, result) && IsContiguous(syms, indices);
      if (!plane || *plane > std::numeric_limits<int16_t>::max() || !contiguous) return {};
      OpBuilder b(g);
      const Sym rows = Numel(syms, sizes.first(sizes.size() - 2));
      const Sym maxima = Numel(syms, std::span(grad.sizes).last(2));
      const ValueId narrow = b.convert_element_type(call.value(7), DType::kInt16);
      const ValueId index = b.view(b.convert_element_type(narrow, DType::kInt64), std::vector<Sym>{rows, maxima});
      const ValueId zeros =
          b.full(std::vector<Sym>{rows, syms.Const(*plane)}, 0.0, result.dtype, std::nullopt, result.device);
      const ValueId sum = b.scatter_add(zeros, 1, index, b.view(call.value(0), std::vector<Sym>{rows, maxima}));
      return {b.view(sum, result.sizes)};
    },
    .no_grad = "the framework's own kernel, and so is its derivative",
};

}  // namespace kiln
