// Losses of pairs of elements, reduced or not, forward and backward. A mean is taken in the compute dtype, without
// rounding the elements of low-precision floats first.
#include <limits>
#include <utility>

#include "compiler/ops/decompose_rules.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"

namespace kiln {
namespace {

// The loss of widened elements; parameters are read from the call.
using ElementFn = ValueId (*)(OpBuilder&, const Call&, ValueId input, ValueId target);

Reduction ReductionArg(const Call& call, size_t i) { return static_cast<Reduction>(call.ConstInt(i, 1)); }

bool IsFloatLoss(const Call& call) { return IsFloat(call.result().dtype) && IsFloat(call.type(0).dtype); }

template <ElementFn element, size_t reduction>
Values Loss(GraphBuilder& graph, const Call& call) {
  OpBuilder b(graph);
  const ValueId loss = element(b, call, WidenedArg(b, call, 0), WidenedArg(b, call, 1));
  return {ReducedLoss(b, call, loss, ReductionArg(call, reduction))};
}

// grad_output, self, target: the derivative of an element times grad_output, divided by the count for a mean.
template <ElementFn derivative, size_t reduction>
Values LossBackward(GraphBuilder& graph, const Call& call) {
  OpBuilder b(graph);
  const ValueId slope = derivative(b, call, WidenedArg(b, call, 1), WidenedArg(b, call, 2));
  ValueId grad = b.mul(slope, WidenedArg(b, call, 0));
  if (ReductionArg(call, reduction) == Reduction::kMean) {
    grad = b.div(grad, Numel(b.syms(), b.type(slope).sizes));
  }
  return {AsResult(b, call, grad)};
}

ValueId SquaredError(OpBuilder& b, const Call&, ValueId x, ValueId t) {
  const ValueId difference = b.sub(x, t);
  return b.mul(difference, difference);
}
ValueId SquaredErrorSlope(OpBuilder& b, const Call&, ValueId x, ValueId t) { return b.mul(b.sub(x, t), 2.0); }

ValueId SmoothL1(OpBuilder& b, const Call& call, ValueId x, ValueId t) {
  const double beta = call.Number(3, 1);
  const ValueId z = b.abs(b.sub(x, t));
  return b.where(b.lt(z, beta), b.div(b.mul(b.mul(z, 0.5), z), beta), b.sub(z, 0.5 * beta));
}
ValueId SmoothL1Slope(OpBuilder& b, const Call& call, ValueId x, ValueId t) {
  const double beta = call.Number(4, 1);
  const ValueId z = b.sub(x, t);
  return b.where(b.le(z, -beta), -1.0, b.where(b.ge(z, beta), 1.0, b.div(z, beta)));
}

ValueId Huber(OpBuilder& b, const Call& call, ValueId x, ValueId t) {
  const double delta = call.Number(3, 1);
  const ValueId z = b.abs(b.sub(x, t));
  return b.where(b.le(z, delta), b.mul(b.mul(z, 0.5), z), b.mul(b.sub(z, 0.5 * delta), delta));
}
ValueId HuberSlope(OpBuilder& b, const Call& call, ValueId x, ValueId t) {
  const double delta = call.Number(4, 1);
  const ValueId z = b.sub(x, t);
  return b.where(b.le(z, -delta), -delta, b.where(b.ge(z, delta), delta, z));
}

ValueId Weighted(OpBuilder& b, const Call& call, ValueId v, size_t weight) {
  return call.is_tensor(weight) ? b.mul(v, WidenedArg(b, call, weight)) : v;
}

ValueId CrossEntropySlope(OpBuilder& b, const Call& call, ValueId x, ValueId t) {
  const ValueId spread = b.clamp_min(b.mul(b.rsub(x, 1.0), x), 1e-12);
  return Weighted(b, call, b.div(b.sub(x, t), spread), 3);
}

// (1 - target) * input - (1 + (pos_weight - 1) * target) * log_sigmoid(input)
ValueId LogitsCrossEntropy(OpBuilder& b, const Call& call, ValueId x, ValueId t) {
  ValueId log = LogSigmoid(b, x);
  if (call.is_tensor(3)) {
    const ValueId extra = b.mul(b.sub(WidenedArg(b, call, 3), 1.0), t);
    log = b.mul(b.add(extra, 1.0), log);
  }
  return Weighted(b, call, b.sub(b.mul(b.rsub(t, 1.0), x), log), 2);
}

}  // namespace

KILN_OP(mse_loss) = {
    .schema = "mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    .torch = {"aten.mse_loss.default"},
    .supports = IsFloatLoss,
    .shape = AsImported,
    .decompose = Loss<SquaredError, 2>,
};

KILN_OP(mse_loss_backward) = {
    .schema = "mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
    .torch = {"aten.mse_loss_backward.default"},
    .supports = IsFloatLoss,
    .shape = AsImported,
    .decompose = LossBackward<SquaredErrorSlope, 3>,
};

KILN_OP(smooth_l1_loss) = {
    .schema = "smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor",
    .torch = {"aten.smooth_l1_loss.default"},
    .supports = IsFloatLoss,
    .shape = AsImported,
    .decompose = Loss<SmoothL1, 2>,
};

KILN_OP(smooth_l1_loss_backward) = {
    .schema =
        "smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float beta) -> Tensor",
    .torch = {"aten.smooth_l1_loss_backward.default"},
    .supports = IsFloatLoss,
    .shape = AsImported,
    .decompose = LossBackward<SmoothL1Slope, 3>,
};

KILN_OP(huber_loss) = {
    .schema = "huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor",
    .torch = {"aten.huber_loss.default"},
    .supports = IsFloatLoss,
    .shape = AsImported,
    .decompose = Loss<Huber, 2>,
};

KILN_OP(huber_loss_backward) = {
    .schema =
        "huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float delta) -> Tensor",
    .torch = {"aten.huber_loss_backward.default"},
    .supports = IsFloatLoss,
    .shape = AsImported,
    .decompose = LossBackward<HuberSlope, 3>,
};

// Eager refuses an input outside of [0, 1], which a kernel cannot: it runs as an external call. Its backward does not.
KILN_OP(binary_cross_entropy_backward) = {
    .schema =
        "binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None, "
        "int reduction=1) -> Tensor",
    .torch = {"aten.binary_cross_entropy_backward.default"},
    .supports = IsFloatLoss,
    .shape = AsImported,
    .decompose = LossBackward<CrossEntropySlope, 4>,
};

KILN_OP(binary_cross_entropy_with_logits) = {
    .schema =
        "binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, "
        "int reduction=1) -> Tensor",
    .torch = {"aten.binary_cross_entropy_with_logits.default"},
    .supports = IsFloatLoss,
    .shape = AsImported,
    .decompose = Loss<LogitsCrossEntropy, 4>,
};

}  // namespace kiln
