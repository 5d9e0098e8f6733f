// Gated linear units and the logarithm of a sigmoid, forward and backward.
#include "compiler/ops/decompose_rules.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"

namespace kiln {
namespace {

// The halves of a tensor along a dim: values, and the gates that scale them.
struct Halves {
  ValueId values, gates;
};

Halves Split(OpBuilder& b, const Call& call, size_t self, size_t dim_arg) {
  const TensorType& type = call.type(self);
  const int64_t dim = *DimArg(call, dim_arg, type.rank());
  const Sym half = b.syms().FloorDiv(type.sizes[dim], b.syms().Const(2));
  const ValueId v = WidenedArg(b, call, self);
  return {b.slice(v, dim, 0, half, 1), b.slice(v, dim, half, type.sizes[dim], 1)};
}

template <size_t self, size_t dim>
bool IsGated(const Call& call) {
  return IsFloat(call.type(self).dtype) && call.type(self).rank() > 0 && DimArg(call, dim, call.type(self).rank()).ok();
}

}  // namespace

KILN_OP(glu) = {
    .schema = "glu(Tensor self, int dim=-1) -> Tensor",
    .torch = {"aten.glu.default"},
    .supports = IsGated<0, 1>,
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) -> Values {
      OpBuilder b(graph);
      const Halves h = Split(b, call, 0, 1);
      return {AsResult(b, call, b.mul(h.values, b.sigmoid(h.gates)))};
    },
};

KILN_OP(glu_backward) = {
    .schema = "glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor",
    .torch = {"aten.glu_backward.default"},
    .supports = IsGated<1, 2>,
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) -> Values {
      OpBuilder b(graph);
      const Halves h = Split(b, call, 1, 2);
      const int64_t dim = *DimArg(call, 2, call.type(1).rank());
      const ValueId grad = WidenedArg(b, call, 0), gate = b.sigmoid(h.gates);
      const ValueId scaled = b.mul(gate, grad);
      const ValueId of_gates = b.mul(b.mul(b.rsub(gate, 1.0), scaled), h.values);
      return {AsResult(b, call, b.cat(std::vector<ValueId>{scaled, of_gates}, dim))};
    },
};

// The buffer is the CPU kernel's: exp(-|self|).
KILN_OP(log_sigmoid) = {
    .schema = "log_sigmoid(Tensor self) -> (Tensor output, Tensor buffer)",
    .torch = {"aten.log_sigmoid_forward.default"},
    .supports =
        [](const Call& call) {
          return IsFloat(call.type(0).dtype) && call.type(0).device == DeviceType::kCpu &&
                 call.result(1).sizes == call.type(0).sizes;
        },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) -> Values {
      OpBuilder b(graph);
      const ValueId self = WidenedArg(b, call, 0);
      return {AsResult(b, call, LogSigmoid(b, self)), AsResult(b, call, b.exp(b.neg(b.abs(self))), 1)};
    },
};

// grad * sigmoid(-self); the buffer is not needed for that.
KILN_OP(log_sigmoid_backward) = {
    .schema = "log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor",
    .torch = {"aten.log_sigmoid_backward.default"},
    .supports = [](const Call& call) { return IsFloat(call.type(1).dtype); },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) -> Values {
      OpBuilder b(graph);
      const ValueId grad = WidenedArg(b, call, 0), self = WidenedArg(b, call, 1);
      return {AsResult(b, call, b.mul(grad, b.sigmoid(b.neg(self))))};
    },
};

}  // namespace kiln
