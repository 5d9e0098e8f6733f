// Losses that pick a class: the negative log-likelihood of rows and of images, forward and backward.
#include "compiler/ops/decompose_rules.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"

namespace kiln {
namespace {

// self is [C], [N, C] or [N, C, …], target without the classes' dim.
bool IsLoss(const Call& call, size_t self, size_t reduction) {
  return IsFloat(call.type(self).dtype) && call.type(self).rank() >= 1 && call.ConstInt(reduction) <= 2;
}

int64_t ClassDim(const Call& call, size_t self) { return call.type(self).rank() == 1 ? 0 : 1; }

// One row has a reduced loss whatever the argument says.
Reduction ReductionOf(const Call& call, size_t self, size_t reduction) {
  const auto wanted = static_cast<Reduction>(call.ConstInt(reduction));
  return call.type(self).rank() == 1 && wanted == Reduction::kNone ? Reduction::kSum : wanted;
}

struct Picked {
  ValueId valid;   // as target: it is not ignore_index
  ValueId target;  // 0 where it is
  ValueId weight;  // of the target's class, widened; or kNoValue
};

Picked Pick(OpBuilder& b, const Call& call, size_t target, size_t weight, size_t ignore_index) {
  Picked out{};
  out.valid = b.ne(call.value(target), call.Int(ignore_index));
  out.target = b.where(out.valid, call.value(target), 0);
  out.weight = kNoValue;
  if (call.is_tensor(weight)) {
    const std::vector<Sym> sizes = b.type(out.target).sizes;
    const ValueId flat = Reshaped(b, out.target, {Numel(b.syms(), sizes)});
    out.weight = Reshaped(b, Widened(b, b.index_select(call.value(weight), 0, flat)), sizes);
  }
  return out;
}

Values Forward(GraphBuilder& graph, const Call& call) {
  OpBuilder b(graph);
  const Picked p = Pick(b, call, 1, 2, 4);
  const int64_t dim = ClassDim(call, 0);
  const Reduction reduction = ReductionOf(call, 0, 3);
  ValueId loss = b.neg(Widened(b, b.squeeze_dim(b.gather(call.value(0), dim, b.unsqueeze(p.target, dim)), dim)));
  ValueId weight = b.convert_element_type(p.valid, b.type(loss).dtype);
  if (p.weight != kNoValue) {
    loss = b.mul(loss, p.weight);
    weight = b.where(p.valid, p.weight, 0.0);
  }
  loss = b.where(p.valid, loss, 0.0);
  if (reduction == Reduction::kNone) {
    const ValueId nothing = b.zeros(std::vector<Sym>{}, call.result(1).dtype, std::nullopt, call.result(1).device);
    return {AsResult(b, call, loss), nothing};
  }
  const ValueId total = b.sum(loss), total_weight = b.sum(weight);
  return {AsResult(b, call, reduction == Reduction::kMean ? b.div(total, total_weight) : total),
          AsResult(b, call, total_weight, 1)};
}

Values Backward(GraphBuilder& graph, const Call& call) {
  OpBuilder b(graph);
  const Picked p = Pick(b, call, 2, 3, 5);
  const TensorType& self = call.type(1);
  const int64_t dim = ClassDim(call, 1);
  const Reduction reduction = ReductionOf(call, 1, 4);
  ValueId grad = b.neg(WidenedArg(b, call, 0));
  if (reduction == Reduction::kMean) grad = b.div(grad, WidenedArg(b, call, 6));
  if (p.weight != kNoValue) grad = b.mul(grad, p.weight);
  if (b.type(grad).rank() + 1 == self.rank() && self.rank() > 1) grad = b.unsqueeze(grad, dim);
  const ValueId classes =
      AlongDim(b, b.arange(self.sizes[dim], DType::kInt64, std::nullopt, self.device), dim, self.rank());
  const ValueId here = b.logical_and(b.eq(b.unsqueeze(p.target, dim), classes), b.unsqueeze(p.valid, dim));
  return {AsResult(b, call, b.where(here, grad, 0.0))};
}

}  // namespace

KILN_OP(nll_loss_forward) = {
    .schema =
        "nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> "
        "(Tensor output, Tensor total_weight)",
    .torch = {"aten.nll_loss_forward.default", "aten.nll_loss2d_forward.default"},
    .supports = [](const Call& call) { return IsLoss(call, 0, 3); },
    .shape = AsImported,
    .decompose = Forward,
};

KILN_OP(nll_loss_backward) = {
    .schema =
        "nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, "
        "SymInt ignore_index, Tensor total_weight) -> Tensor",
    .torch = {"aten.nll_loss_backward.default", "aten.nll_loss2d_backward.default"},
    .supports = [](const Call& call) { return IsLoss(call, 1, 4); },
    .shape = AsImported,
    .decompose = Backward,
};

}  // namespace kiln
