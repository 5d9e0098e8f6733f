// Copies and conversions: the same elements, in memory of their own.
#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_builder.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/ops/vjp_rules.h"

namespace kiln {
namespace {

// Operand 0 converted to the result's dtype.
Results LowerConvert(Element& e) { return {e[0]}; }

double RefConvert(const RefArgs& x) { return x[0]; }

}  // namespace

KILN_OP(to_copy) = {
    .schema =
        "to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
    .torch = {"aten._to_copy.default"},
    .promote = Promote::kResult,
    .supports = [](const Call& call) { return call.result().device == call.type(0).device; },
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      TensorType type = call.type(0);
      type.dtype = DTypeArg(call, 1, type.dtype);
      if (const DeviceType* device = std::get_if<DeviceType>(&call.arg(3).v)) type.device = *device;
      type.strides = StridesFor(call.syms(), call.type(0), call.arg(6));
      return TypeList{std::move(type)};
    },
    .lower = LowerConvert,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.convert_element_type(d[0], c.type(0).dtype)};
    },
    .ref = RefConvert,
    .samples = {{-100, 100}},
};

KILN_OP(convert_element_type) = {
    .schema = "convert_element_type(Tensor a, ScalarType dtype) -> Tensor",
    .torch = {"prims.convert_element_type.default"},
    .promote = Promote::kResult,
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      TensorType type = call.type(0);
      type.dtype = DTypeArg(call, 1, type.dtype);
      type.strides = DenseStridesLike(call.syms(), call.type(0));
      return TypeList{std::move(type)};
    },
    .lower = LowerConvert,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {b.convert_element_type(d[0], c.type(0).dtype)};
    },
    .ref = RefConvert,
    .samples = {{-100, 100, false, "dtype=f32"}, {-100, 100, false, "dtype=bf16"}, {-100, 100, false, "dtype=i32"}},
};

KILN_OP(clone) = {
    .schema = "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
    .torch = {"aten.clone.default"},
    .promote = Promote::kResult,
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      TensorType type = call.type(0);
      type.strides = StridesFor(call.syms(), call.type(0), call.arg(1));
      return TypeList{std::move(type)};
    },
    .lower = LowerConvert,
    .vjp = [](GraphBuilder&, const Call&, std::span<const ValueId> d) -> Grads { return {d[0]}; },
    .ref = RefConvert,
    .samples = {{-10, 10}, {-1, 1, true}},
};

KILN_OP(lift_fresh_copy) = {
    .schema = "lift_fresh_copy(Tensor self) -> Tensor",
    .torch = {"aten.lift_fresh_copy.default"},
    .promote = Promote::kResult,
    .shape = LikeArg<0>,
    .lower = LowerConvert,
    .no_grad = "the operand is a constant",
    .ref = RefConvert,
    .samples = {{-10, 10}},
};

// The elements of `src`, broadcast and converted, in the layout of `self`, whose elements are not read.
KILN_OP(copy) = {
    .schema = "copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor",
    .torch = {"aten.copy.default"},
    .promote = Promote::kResult,
    .supports = [](const Call& call) { return call.type(1).device == call.type(0).device; },
    .shape = LikeArg<0>,
    .lower = [](Element& e) -> Results { return {e[1]}; },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {kNoValue, SumToOperand(b, d[0], c.type(1))};
    },
    .ref = [](const RefArgs& x) { return x[1]; },
    .samples = {{-10, 10}},
};

KILN_OP(fill) = {
    .schema = "fill(Tensor self, Tensor|Scalar value) -> Tensor",
    .torch = {"aten.fill.Scalar", "aten.fill.Tensor"},
    .promote = Promote::kResult,
    .shape = LikeArg<0>,
    .lower = [](Element& e) -> Results { return {e[1]}; },
    .ref = [](const RefArgs& x) { return x[1]; },
    .samples = {{-10, 10, false, "value=3"}},
};

}  // namespace kiln
