// Tensors from nothing but numbers. They are cheap enough to be computed wherever they are read.
#include <cmath>
#include <variant>

#include "absl/strings/str_cat.h"
#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/promote.h"
#include "compiler/ops/shape_rules.h"

namespace kiln {
namespace {

DType DTypeOfNumber(const Call& call, size_t i) {
  if (call.IsFloatNumber(i)) return kDefaultFloat;
  return std::holds_alternative<bool>(call.arg(i).v) ? DType::kBool : DType::kInt64;
}

// size, …, dtype at argument D (None: the default float).
template <size_t D>
absl::StatusOr<TypeList> SizedShape(const Call& call) {
  return TypeList{ContiguousType(call.syms(), DTypeArg(call, D, kDefaultFloat), DeviceOf(call), call.Ints(0))};
}

// self, …, dtype and device at arguments D and D + 2, memory format at D + 4.
template <size_t D>
absl::StatusOr<TypeList> LikeShape(const Call& call) {
  TensorType type = call.type(0);
  type.dtype = DTypeArg(call, D, type.dtype);
  if (const DeviceType* device = std::get_if<DeviceType>(&call.arg(D + 2).v)) type.device = *device;
  type.strides = StridesFor(call.syms(), call.type(0), call.arg(D + 4));
  return TypeList{std::move(type)};
}

// self, size, …, dtype and device at arguments D and D + 2.
template <size_t D>
absl::StatusOr<TypeList> NewShape(const Call& call) {
  const DeviceType* device = std::get_if<DeviceType>(&call.arg(D + 2).v);
  return TypeList{ContiguousType(call.syms(), DTypeArg(call, D, call.type(0).dtype),
                                 device ? *device : call.type(0).device, call.Ints(1))};
}

template <int value>
Results LowerConstant(Element& e) {
  const DType dtype = e.compute();
  if (dtype == DType::kBool) return {e.b().ConstBits(dtype, value != 0)};
  return {e.b().Const(dtype, value)};
}

template <size_t I>
Results LowerNumber(Element& e) {
  return {NumberAs(e, I, e.compute()).id()};
}

// --- arange: the arguments of its three overloads by position, kNoArg where an overload has none ---

constexpr size_t kNoArg = 99;

struct RangeArgs {
  size_t start, end, step, dtype;
};

bool IsFloatRange(const Call& call, const RangeArgs& a) {
  return call.IsFloatNumber(a.start) || call.IsFloatNumber(a.end) || call.IsFloatNumber(a.step);
}

absl::StatusOr<TypeList> RangeShape(const Call& call, const RangeArgs& a) {
  SymContext& syms = call.syms();
  const bool floats = IsFloatRange(call, a);
  Sym size;
  if (floats) {
    const double step = call.Number(a.step, 1), span = call.Number(a.end) - call.Number(a.start, 0);
    const double count = std::ceil(span / step);
    if (!(count >= 0 && count < 9e15))
      return absl::InvalidArgumentError(absl::StrCat("arange of ", count, " elements"));
    size = syms.Const(static_cast<int64_t>(count));
  } else {
    // Which way a symbolic step leads is not known here, and so not the size.
    if (!syms.AsConst(call.Int(a.step, 1))) return AsImported(call);
    const int64_t step = call.ConstInt(a.step, 1);
    if (step == 0) return absl::InvalidArgumentError("arange with a step of 0");
    const Sym span = syms.Sub(call.Int(a.end), call.Int(a.start, 0));
    size = step > 0 ? syms.CeilDiv(span, syms.Const(step)) : syms.CeilDiv(syms.Sub(Sym{}, span), syms.Const(-step));
  }
  if (syms.ProvablyLess(size, Sym{})) return absl::InvalidArgumentError("arange whose step leads away from its end");
  const DType dtype = DTypeArg(call, a.dtype, floats ? kDefaultFloat : DType::kInt64);
  return TypeList{ContiguousType(syms, dtype, DeviceOf(call), {size})};
}

// Whole numbers are exact; fractions are computed in f64 as eager does and rounded once.
Results LowerRange(Element& e, const RangeArgs& a) {
  SymContext& syms = e.call().syms();
  loop::Builder& b = e.b();
  const Call& call = e.call();
  if (!IsFloatRange(call, a)) {
    return {b.Index(syms.Add(call.Int(a.start, 0), syms.Mul(e.index()[0], call.Int(a.step, 1))))};
  }
  const Expr i = IndexExpr(e, e.index()[0]).Cast(DType::kFloat64);
  return {(call.Number(a.start, 0) + call.Number(a.step, 1) * i).id()};
}

constexpr RangeArgs kRangeEnd{kNoArg, 0, kNoArg, 1}, kRangeStart{0, 1, kNoArg, 2}, kRangeStep{0, 1, 2, 3};

absl::StatusOr<TypeList> EyeShape(const Call& call, Sym rows, Sym columns, size_t dtype) {
  return TypeList{ContiguousType(call.syms(), DTypeArg(call, dtype, kDefaultFloat), DeviceOf(call), {rows, columns})};
}

Results LowerEye(Element& e) {
  const Expr diagonal = IndexExpr(e, e.index()[0]) == IndexExpr(e, e.index()[1]);
  return {diagonal.Cast(e.compute()).id()};
}

}  // namespace

KILN_OP(full) = {
    .schema =
        "full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, "
        "Device? device=None, bool? pin_memory=None) -> Tensor",
    .torch = {"aten.full.default"},
    .promote = Promote::kResult,
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      const DType dtype = DTypeArg(call, 2, DTypeOfNumber(call, 1));
      return TypeList{ContiguousType(call.syms(), dtype, DeviceOf(call), call.Ints(0))};
    },
    .lower = LowerNumber<1>,
    .no_grad = "no tensor operand",
};

KILN_OP(zeros) = {
    .schema =
        "zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None) -> Tensor",
    .torch = {"aten.zeros.default"},
    .promote = Promote::kResult,
    .shape = SizedShape<1>,
    .lower = LowerConstant<0>,
    .no_grad = "no tensor operand",
};

KILN_OP(ones) = {
    .schema =
        "ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None) -> Tensor",
    .torch = {"aten.ones.default"},
    .promote = Promote::kResult,
    .shape = SizedShape<1>,
    .lower = LowerConstant<1>,
    .no_grad = "no tensor operand",
};

// Any contents will do for the empty ones; zeros are the same each time.
KILN_OP(empty) = {
    .schema =
        "empty(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    .torch = {"aten.empty.memory_format"},
    .promote = Promote::kResult,
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      absl::StatusOr<TypeList> types = SizedShape<1>(call);
      if (types.ok() && std::holds_alternative<MemoryFormat>(call.arg(5).v)) {
        (*types)[0].strides = StridesFor(call.syms(), (*types)[0], call.arg(5));
      }
      return types;
    },
    .lower = LowerConstant<0>,
    .no_grad = "no tensor operand",
};

KILN_OP(empty_strided) = {
    .schema =
        "empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None, "
        "Device? device=None, bool? pin_memory=None) -> Tensor",
    .torch = {"aten.empty_strided.default"},
    .promote = Promote::kResult,
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      absl::StatusOr<TypeList> types = SizedShape<2>(call);
      (*types)[0].strides = call.Ints(1);
      return types;
    },
    .lower = LowerConstant<0>,
    .no_grad = "no tensor operand",
};

KILN_OP(full_like) = {
    .schema =
        "full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, "
        "Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    .torch = {"aten.full_like.default"},
    .promote = Promote::kResult,
    .shape = LikeShape<2>,
    .lower = LowerNumber<1>,
    .no_grad = "no element of the operand is read",
};

KILN_OP(zeros_like) = {
    .schema =
        "zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    .torch = {"aten.zeros_like.default"},
    .promote = Promote::kResult,
    .shape = LikeShape<1>,
    .lower = LowerConstant<0>,
    .no_grad = "no element of the operand is read",
};

KILN_OP(ones_like) = {
    .schema =
        "ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    .torch = {"aten.ones_like.default"},
    .promote = Promote::kResult,
    .shape = LikeShape<1>,
    .lower = LowerConstant<1>,
    .no_grad = "no element of the operand is read",
};

KILN_OP(empty_like) = {
    .schema =
        "empty_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    .torch = {"aten.empty_like.default"},
    .promote = Promote::kResult,
    .shape = LikeShape<1>,
    .lower = LowerConstant<0>,
    .no_grad = "no element of the operand is read",
};

KILN_OP(new_zeros) = {
    .schema =
        "new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
        "Device? device=None, bool? pin_memory=None) -> Tensor",
    .torch = {"aten.new_zeros.default"},
    .promote = Promote::kResult,
    .shape = NewShape<2>,
    .lower = LowerConstant<0>,
    .no_grad = "no element of the operand is read",
};

KILN_OP(new_ones) = {
    .schema =
        "new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
        "Device? device=None, bool? pin_memory=None) -> Tensor",
    .torch = {"aten.new_ones.default"},
    .promote = Promote::kResult,
    .shape = NewShape<2>,
    .lower = LowerConstant<1>,
    .no_grad = "no element of the operand is read",
};

KILN_OP(new_empty) = {
    .schema =
        "new_empty(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
        "Device? device=None, bool? pin_memory=None) -> Tensor",
    .torch = {"aten.new_empty.default"},
    .promote = Promote::kResult,
    .shape = NewShape<2>,
    .lower = LowerConstant<0>,
    .no_grad = "no element of the operand is read",
};

KILN_OP(new_full) = {
    .schema =
        "new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, "
        "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    .torch = {"aten.new_full.default"},
    .promote = Promote::kResult,
    .shape = NewShape<3>,
    .lower = LowerNumber<2>,
    .no_grad = "no element of the operand is read",
};

KILN_OP(new_empty_strided) = {
    .schema =
        "new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, "
        "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    .torch = {"aten.new_empty_strided.default"},
    .promote = Promote::kResult,
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      absl::StatusOr<TypeList> types = NewShape<3>(call);
      (*types)[0].strides = call.Ints(2);
      return types;
    },
    .lower = LowerConstant<0>,
    .no_grad = "no element of the operand is read",
};

KILN_OP(scalar_tensor) = {
    .schema =
        "scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None) -> Tensor",
    .torch = {"aten.scalar_tensor.default"},
    .promote = Promote::kResult,
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      return TypeList{ContiguousType(call.syms(), DTypeArg(call, 1, kDefaultFloat), DeviceOf(call), {})};
    },
    .lower = LowerNumber<0>,
    .no_grad = "no tensor operand",
};

KILN_OP(arange) = {
    .schema =
        "arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None) -> Tensor",
    .torch = {"aten.arange.default"},
    .promote = Promote::kResult,
    .shape = [](const Call& call) { return RangeShape(call, kRangeEnd); },
    .lower = [](Element& e) { return LowerRange(e, kRangeEnd); },
    .no_grad = "no tensor operand",
};

KILN_OP(arange_start) = {
    .schema =
        "arange_start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, "
        "Device? device=None, bool? pin_memory=None) -> Tensor",
    .torch = {"aten.arange.start"},
    .promote = Promote::kResult,
    .shape = [](const Call& call) { return RangeShape(call, kRangeStart); },
    .lower = [](Element& e) { return LowerRange(e, kRangeStart); },
    .no_grad = "no tensor operand",
};

KILN_OP(arange_step) = {
    .schema =
        "arange_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, "
        "Device? device=None, bool? pin_memory=None) -> Tensor",
    .torch = {"aten.arange.start_step"},
    .promote = Promote::kResult,
    .shape = [](const Call& call) { return RangeShape(call, kRangeStep); },
    .lower = [](Element& e) { return LowerRange(e, kRangeStep); },
    .no_grad = "no tensor operand",
};

KILN_OP(eye) = {
    .schema =
        "eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None) -> Tensor",
    .torch = {"aten.eye.default"},
    .promote = Promote::kResult,
    .shape = [](const Call& call) { return EyeShape(call, call.Int(0), call.Int(0), 1); },
    .lower = LowerEye,
    .no_grad = "no tensor operand",
};

KILN_OP(eye_m) = {
    .schema =
        "eye_m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None) -> Tensor",
    .torch = {"aten.eye.m"},
    .promote = Promote::kResult,
    .shape = [](const Call& call) { return EyeShape(call, call.Int(0), call.Int(1), 2); },
    .lower = LowerEye,
    .no_grad = "no tensor operand",
};

}  // namespace kiln
