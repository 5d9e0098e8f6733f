// Losses that pick a class: the negative log-likelihood, forward and backward.
#include "compiler/ops/op_builder.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"

namespace kiln {
namespace {

constexpr int64_t kMean = 1;  // torch's Reduction

// Of rows of classes to one number. f16 and bf16 are rounded between rows by eager, in an order of its own.
bool IsPlainLoss(const Call& call, size_t self, size_t reduction) {
  const DType dtype = call.type(self).dtype;
  return (dtype == DType::kFloat32 || dtype == DType::kFloat64) && call.type(self).rank() == 2 &&
         call.ConstInt(reduction) != 0;
}

struct Picked {
  ValueId valid;   // [N]: the target is not ignore_index
  ValueId target;  // [N]: 0 where it is
  ValueId weight;  // [N]: of the target's class, or kNoValue
};

Picked Pick(OpBuilder& b, const Call& call, size_t target, size_t weight, size_t ignore_index) {
  Picked out{};
  out.valid = b.ne(call.value(target), call.Int(ignore_index));
  out.target = b.where(out.valid, call.value(target), 0);
  out.weight = call.is_tensor(weight) ? b.index_select(call.value(weight), 0, out.target) : kNoValue;
  return out;
}

}  // namespace

KILN_OP(nll_loss_forward) = {
    .schema =
        "nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> "
        "(Tensor output, Tensor total_weight)",
    .torch = {"aten.nll_loss_forward.default"},
    .supports = [](const Call& call) { return IsPlainLoss(call, 0, 3); },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) -> Values {
      OpBuilder b(graph);
      const Picked p = Pick(b, call, 1, 2, 4);
      const DType dtype = call.result().dtype;
      ValueId loss = b.neg(b.squeeze_dim(b.gather(call.value(0), 1, b.unsqueeze(p.target, 1)), 1));
      ValueId weight = b.convert_element_type(p.valid, dtype);
      if (p.weight != kNoValue) {
        loss = b.mul(loss, p.weight);
        weight = b.where(p.valid, p.weight, 0.0);
      }
      const ValueId total = b.sum(b.where(p.valid, loss, 0.0)), total_weight = b.sum(weight);
      return {call.ConstInt(3) == kMean ? b.div(total, total_weight) : total, total_weight};
    },
};

KILN_OP(nll_loss_backward) = {
    .schema =
        "nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, "
        "SymInt ignore_index, Tensor total_weight) -> Tensor",
    .torch = {"aten.nll_loss_backward.default"},
    .supports = [](const Call& call) { return IsPlainLoss(call, 1, 4); },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) -> Values {
      OpBuilder b(graph);
      const Picked p = Pick(b, call, 2, 3, 5);
      const TensorType& self = call.type(1);
      ValueId grad = b.neg(call.value(0));
      if (call.ConstInt(4) == kMean) grad = b.div(grad, call.value(6));
      if (p.weight != kNoValue) grad = b.unsqueeze(b.mul(grad, p.weight), 1);
      const ValueId classes = b.arange(self.sizes[1], DType::kInt64, std::nullopt, self.device);
      const ValueId here = b.logical_and(b.eq(b.unsqueeze(p.target, 1), classes), b.unsqueeze(p.valid, 1));
      return {b.where(here, grad, 0.0)};
    },
};

}  // namespace kiln
