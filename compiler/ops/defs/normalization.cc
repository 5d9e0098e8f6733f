// Softmax and layer norm, forward and backward: rows that are reduced and then scaled, as the parts that they are made
// of.
#include <limits>

#include "compiler/ops/decompose_rules.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"

namespace kiln {
namespace {

// --- softmax: arguments (self or gradients…, dim) ---

// A row of no elements has no maximum, and a tensor without dims no row.
bool HasRows(const Call& call, size_t dim_arg) {
  const TensorType& self = call.type(0);
  if (self.rank() == 0 || !IsFloat(call.result().dtype)) return false;
  const absl::StatusOr<int64_t> dim = DimArg(call, dim_arg, self.rank());
  return dim.ok() && !call.syms().IsConst(self.sizes[*dim], 0);
}

std::vector<int64_t> RowDim(const Call& call, size_t dim_arg) { return {*DimArg(call, dim_arg, call.type(0).rank())}; }

struct Exponentials {
  ValueId max, shifted, exp, sum;  // shifted: self - max
};

Exponentials RowExponentials(OpBuilder& b, ValueId self, const std::vector<int64_t>& dim) {
  Exponentials e{};
  e.max = b.amax(self, dim, true);
  e.shifted = b.sub(self, e.max);
  e.exp = b.exp(e.shifted);
  e.sum = b.sum_dim(e.exp, dim, true);
  return e;
}

// --- layer norm ---

// The normalized dims are the last of the input.
std::vector<int64_t> NormalizedDims(const Call& call, size_t input, size_t shape) {
  const int64_t rank = call.type(input).rank(), count = static_cast<int64_t>(call.Ints(shape).size());
  std::vector<int64_t> dims;
  for (int64_t d = rank - count; d < rank; ++d) dims.push_back(d);
  return dims;
}
std::vector<int64_t> OuterDims(const Call& call, size_t input, size_t shape) {
  const int64_t rank = call.type(input).rank(), count = static_cast<int64_t>(call.Ints(shape).size());
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < rank - count; ++d) dims.push_back(d);
  return dims;
}

bool IsFloatNorm(const Call& call, size_t input, size_t shape) {
  return IsFloat(call.type(input).dtype) && !NormalizedDims(call, input, shape).empty();
}

}  // namespace

KILN_OP(softmax) = {
    .schema = "softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
    .torch = {"aten._softmax.default"},
    .supports = [](const Call& call) { return HasRows(call, 1); },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) -> Values {
      OpBuilder b(graph);
      const Exponentials e = RowExponentials(b, Widened(b, call.value(0)), RowDim(call, 1));
      return {AsResult(b, call, b.div(e.exp, e.sum))};
    },
};

// Rows of nothing but -inf become 0.
KILN_OP(safe_softmax) = {
    .schema = "safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    .torch = {"aten._safe_softmax.default"},
    .supports = [](const Call& call) { return HasRows(call, 1) && call.is_none(2); },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) -> Values {
      OpBuilder b(graph);
      const Exponentials e = RowExponentials(b, Widened(b, call.value(0)), RowDim(call, 1));
      const ValueId masked = b.eq(e.max, -std::numeric_limits<double>::infinity());
      return {AsResult(b, call, b.where(masked, 0.0, b.div(e.exp, e.sum)))};
    },
};

KILN_OP(log_softmax) = {
    .schema = "log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
    .torch = {"aten._log_softmax.default"},
    .supports = [](const Call& call) { return HasRows(call, 1); },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) -> Values {
      OpBuilder b(graph);
      const Exponentials e = RowExponentials(b, Widened(b, call.value(0)), RowDim(call, 1));
      return {AsResult(b, call, b.sub(e.shifted, b.log(e.sum)))};
    },
};

// Where a row's maximum is infinite, nothing is subtracted.
KILN_OP(logsumexp) = {
    .schema = "logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    .torch = {"aten.logsumexp.default"},
    .supports =
        [](const Call& call) {
          return call.type(0).rank() > 0 && IsFloat(call.type(0).dtype) && !call.ConstInts(1).empty() &&
                 !IsEmpty(call, 0);
        },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) -> Values {
      OpBuilder b(graph);
      const std::vector<int64_t> dims = *DimsArg(call, 1, call.type(0).rank());
      const ValueId self = WidenedArg(b, call, 0), max = b.amax(self, dims, true);
      const ValueId shift = b.where(b.isinf(max), 0.0, max);
      ValueId out = b.add(b.log(b.sum_dim(b.exp(b.sub(self, shift)), dims, true)), shift);
      if (!call.Bool(2)) out = Reshaped(b, out, call.result().sizes);
      return {AsResult(b, call, out)};
    },
};

KILN_OP(softmax_backward) = {
    .schema = "softmax_backward(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
    .torch = {"aten._softmax_backward_data.default"},
    .supports = [](const Call& call) { return HasRows(call, 2); },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) -> Values {
      OpBuilder b(graph);
      const ValueId grad = Widened(b, call.value(0)), output = Widened(b, call.value(1));
      const ValueId sum = b.sum_dim(b.mul(grad, output), RowDim(call, 2), true);
      return {AsResult(b, call, b.mul(output, b.sub(grad, sum)))};
    },
};

KILN_OP(log_softmax_backward) = {
    .schema = "log_softmax_backward(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
    .torch = {"aten._log_softmax_backward_data.default"},
    .supports = [](const Call& call) { return HasRows(call, 2); },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) -> Values {
      OpBuilder b(graph);
      const ValueId grad = Widened(b, call.value(0)), output = Widened(b, call.value(1));
      const ValueId sum = b.sum_dim(grad, RowDim(call, 2), true);
      return {AsResult(b, call, b.sub(grad, b.mul(b.exp(output), sum)))};
    },
};

KILN_OP(native_layer_norm) = {
    .schema =
        "native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> "
        "(Tensor, Tensor, Tensor)",
    .torch = {"aten.native_layer_norm.default"},
    .supports = [](const Call& call) { return IsFloatNorm(call, 0, 1); },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) -> Values {
      OpBuilder b(graph);
      const std::vector<int64_t> dims = NormalizedDims(call, 0, 1);
      const ValueId input = Widened(b, call.value(0));
      const ValueId mean = b.mean_dim(input, dims, true);
      const ValueId centered = b.sub(input, mean);
      const ValueId variance = b.mean_dim(b.mul(centered, centered), dims, true);
      const ValueId rstd = b.rsqrt(b.add(variance, call.Number(4)));
      ValueId out = b.mul(centered, rstd);
      if (call.is_tensor(2)) out = b.mul(out, Widened(b, call.value(2)));
      if (call.is_tensor(3)) out = b.add(out, Widened(b, call.value(3)));
      return {AsResult(b, call, out), AsResult(b, call, mean, 1), AsResult(b, call, rstd, 2)};
    },
};

KILN_OP(native_layer_norm_backward) = {
    .schema =
        "native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, "
        "Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    .torch = {"aten.native_layer_norm_backward.default"},
    .supports = [](const Call& call) { return IsFloatNorm(call, 1, 2); },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) -> Values {
      OpBuilder b(graph);
      const std::vector<int64_t> dims = NormalizedDims(call, 1, 2), outer = OuterDims(call, 1, 2);
      const std::vector<int64_t> wanted = call.ConstInts(7);
      const ValueId grad = Widened(b, call.value(0)), rstd = Widened(b, call.value(4));
      const ValueId normalized = b.mul(b.sub(Widened(b, call.value(1)), Widened(b, call.value(3))), rstd);
      Values out(3, kNoValue);
      if (wanted[0]) {
        const ValueId scaled = call.is_tensor(5) ? b.mul(grad, Widened(b, call.value(5))) : grad;
        const ValueId along = b.mul(normalized, b.mean_dim(b.mul(scaled, normalized), dims, true));
        const ValueId rest = b.sub(b.sub(scaled, b.mean_dim(scaled, dims, true)), along);
        out[0] = AsResult(b, call, b.mul(rest, rstd), 0);
      }
      if (wanted[1]) out[1] = AsResult(b, call, SumOver(b, b.mul(grad, normalized), outer), 1);
      if (wanted[2]) out[2] = AsResult(b, call, SumOver(b, grad, outer), 2);
      return out;
    },
};

}  // namespace kiln
