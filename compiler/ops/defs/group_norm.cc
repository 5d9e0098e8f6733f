// Group norm and RMS norm, forward and backward.
#include <limits>

#include "compiler/ops/decompose_rules.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"

namespace kiln {
namespace {

// --- group norm: channels are split into groups, [N, C, …] seen as [N, groups, C / groups, …] ---

constexpr int64_t kGroupDim = 1, kChannelDim = 2;

struct Groups {
  OpBuilder& b;
  std::vector<Sym> whole;    // sizes of the input
  std::vector<Sym> grouped;  // seen by groups
  std::vector<int64_t> row;  // dims of one group's elements
  std::vector<int64_t> spatial;

  Groups(OpBuilder& builder, const TensorType& input, int64_t groups) : b(builder), whole(input.sizes) {
    const Sym count = b.syms().Const(groups);
    grouped = {whole[0], count, b.syms().FloorDiv(whole[1], count)};
    grouped.insert(grouped.end(), whole.begin() + 2, whole.end());
    for (int64_t d = kChannelDim; d < rank(); ++d) row.push_back(d);
    for (int64_t d = kChannelDim + 1; d < rank(); ++d) spatial.push_back(d);
  }

  int64_t rank() const { return static_cast<int64_t>(grouped.size()); }
  ValueId Split(ValueId v) const { return Reshaped(b, v, grouped); }
  ValueId Merge(ValueId v) const { return Reshaped(b, v, whole); }
  // [N, groups] as [N, groups, 1, …], and back.
  ValueId OfGroup(ValueId v) const {
    std::vector<Sym> sizes(rank(), b.syms().Const(1));
    sizes[0] = grouped[0], sizes[kGroupDim] = grouped[kGroupDim];
    return Reshaped(b, v, sizes);
  }
  ValueId Statistic(ValueId v) const { return Reshaped(b, v, {grouped[0], grouped[kGroupDim]}); }
  // [C] as [groups, C / groups, 1, …].
  ValueId OfChannel(ValueId v) const {
    std::vector<Sym> sizes(rank() - 1, b.syms().Const(1));
    sizes[0] = grouped[kGroupDim], sizes[1] = grouped[kChannelDim];
    return Reshaped(b, v, sizes);
  }
};

bool IsGrouped(const Call& call, size_t input, size_t group) {
  const TensorType& type = call.type(input);
  return IsFloat(type.dtype) && type.rank() >= 2 && call.ConstInt(group) > 0 && !IsEmpty(call, input);
}

Values GroupNorm(GraphBuilder& graph, const Call& call) {
  OpBuilder b(graph);
  const Groups g(b, call.type(0), call.ConstInt(6));
  const ValueId input = g.Split(WidenedArg(b, call, 0));
  const ValueId mean = b.mean_dim(input, g.row, true);
  const ValueId centered = b.sub(input, mean);
  const ValueId rstd = b.rsqrt(b.add(b.mean_dim(b.mul(centered, centered), g.row, true), call.Number(7)));
  ValueId out = b.mul(centered, rstd);
  if (call.is_tensor(1)) out = b.mul(out, g.OfChannel(WidenedArg(b, call, 1)));
  if (call.is_tensor(2)) out = b.add(out, g.OfChannel(WidenedArg(b, call, 2)));
  return {g.Merge(AsResult(b, call, out)), AsResult(b, call, g.Statistic(mean), 1),
          AsResult(b, call, g.Statistic(rstd), 2)};
}

Values GroupNormBackward(GraphBuilder& graph, const Call& call) {
  OpBuilder b(graph);
  const Groups g(b, call.type(1), call.ConstInt(8));
  const std::vector<int64_t> wanted = call.ConstInts(9);
  const ValueId grad = g.Split(WidenedArg(b, call, 0)), rstd = g.OfGroup(WidenedArg(b, call, 3));
  const ValueId normalized = b.mul(b.sub(g.Split(WidenedArg(b, call, 1)), g.OfGroup(WidenedArg(b, call, 2))), rstd);
  const std::vector<Sym> channels = {g.whole[1]};
  std::vector<int64_t> but_channels = {0};
  but_channels.insert(but_channels.end(), g.spatial.begin(), g.spatial.end());
  Values out(3, kNoValue);
  if (wanted[0]) {
    const ValueId scaled = call.is_tensor(4) ? b.mul(grad, g.OfChannel(WidenedArg(b, call, 4))) : grad;
    const ValueId along = b.mul(normalized, b.mean_dim(b.mul(scaled, normalized), g.row, true));
    const ValueId rest = b.sub(b.sub(scaled, b.mean_dim(scaled, g.row, true)), along);
    out[0] = g.Merge(AsResult(b, call, b.mul(rest, rstd), 0));
  }
  const auto by_channel = [&](ValueId v, size_t i) {
    return AsResult(b, call, Reshaped(b, b.sum_dim(v, but_channels), channels), i);
  };
  if (wanted[1]) out[1] = by_channel(b.mul(grad, normalized), 1);
  if (wanted[2]) out[2] = by_channel(grad, 2);
  return out;
}

// --- RMS norm: the normalized dims are the last of the input ---

struct RowDims {
  std::vector<int64_t> row, outer;
};

RowDims SplitRows(const Call& call, size_t input, size_t shape) {
  const int64_t rank = call.type(input).rank(), first = rank - static_cast<int64_t>(call.Ints(shape).size());
  RowDims dims;
  for (int64_t d = 0; d < rank; ++d) (d < first ? dims.outer : dims.row).push_back(d);
  return dims;
}

bool HasFloatRows(const Call& call, size_t input, size_t shape) {
  return IsFloat(call.type(input).dtype) && !call.Ints(shape).empty();
}

double Epsilon(DType compute) {
  return compute == DType::kFloat64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

}  // namespace

KILN_OP(native_group_norm) = {
    .schema =
        "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, "
        "float eps) -> (Tensor, Tensor, Tensor)",
    .torch = {"aten.native_group_norm.default"},
    .supports = [](const Call& call) { return IsGrouped(call, 0, 6); },
    .shape = AsImported,
    .decompose = GroupNorm,
};

KILN_OP(native_group_norm_backward) = {
    .schema =
        "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, SymInt N, "
        "SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    .torch = {"aten.native_group_norm_backward.default"},
    .supports = [](const Call& call) { return IsGrouped(call, 1, 8); },
    .shape = AsImported,
    .decompose = GroupNormBackward,
};

KILN_OP(fused_rms_norm) = {
    .schema = "fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)",
    .torch = {"aten._fused_rms_norm.default"},
    .supports = [](const Call& call) { return HasFloatRows(call, 0, 1); },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) -> Values {
      OpBuilder b(graph);
      const ValueId input = WidenedArg(b, call, 0);
      const double eps = call.Number(3, Epsilon(b.type(input).dtype));
      const ValueId square = b.mean_dim(b.mul(input, input), SplitRows(call, 0, 1).row, true);
      const ValueId rstd = b.rsqrt(b.add(square, eps));
      ValueId out = b.mul(input, rstd);
      if (call.is_tensor(2)) out = b.mul(out, WidenedArg(b, call, 2));
      return {AsResult(b, call, out), AsResult(b, call, rstd, 1)};
    },
};

KILN_OP(fused_rms_norm_backward) = {
    .schema =
        "fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, Tensor? weight, "
        "bool[2] output_mask) -> (Tensor, Tensor)",
    .torch = {"aten._fused_rms_norm_backward.default"},
    .supports = [](const Call& call) { return HasFloatRows(call, 1, 2); },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) -> Values {
      OpBuilder b(graph);
      const RowDims dims = SplitRows(call, 1, 2);
      const std::vector<int64_t> wanted = call.ConstInts(5);
      const ValueId grad = WidenedArg(b, call, 0), rstd = WidenedArg(b, call, 3);
      const ValueId normalized = b.mul(WidenedArg(b, call, 1), rstd);
      Values out(2, kNoValue);
      if (wanted[0]) {
        const ValueId scaled = call.is_tensor(4) ? b.mul(grad, WidenedArg(b, call, 4)) : grad;
        const ValueId along = b.mul(normalized, b.mean_dim(b.mul(scaled, normalized), dims.row, true));
        out[0] = AsResult(b, call, b.mul(b.sub(scaled, along), rstd), 0);
      }
      if (wanted[1]) out[1] = AsResult(b, call, SumOver(b, b.mul(grad, normalized), dims.outer), 1);
      return out;
    },
};

}  // namespace kiln
