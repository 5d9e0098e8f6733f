// Reductions to one value: sums, means, extrema, products, any and all, norms.
//
// Low-precision floats accumulate in f32 and are rounded once, as in eager. The order of a reduction belongs to its
// schedule.
#include <cmath>
#include <limits>
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

using loop::ValueId;
using Tuple = std::vector<ValueId>;

// Where a reduction's arguments stand; kNoArg for an overload without.
constexpr size_t kNoArg = 99;

struct ReduceArgs {
  size_t dim = kNoArg, keepdim = kNoArg, dtype = kNoArg;
};

constexpr ReduceArgs kFull{}, kFullWithDType{.dtype = 1}, kDims{.dim = 1, .keepdim = 2},
    kDimsWithDType{.dim = 1, .keepdim = 2, .dtype = 3}, kNorm{.dim = 2, .keepdim = 3, .dtype = 4};

absl::StatusOr<TypeList> ReducedShape(const Call& call, const ReduceArgs& a, DType dtype) {
  const TensorType& self = call.type(0);
  const absl::StatusOr<std::vector<int64_t>> dims = DimsArg(call, a.dim, self.rank());
  if (!dims.ok()) return dims.status();
  std::vector<Sym> sizes = ReducedSizes(call.syms(), self.sizes, *dims, call.Bool(a.keepdim));
  return TypeList{ContiguousType(call.syms(), dtype, self.device, std::move(sizes))};
}

// The accumulator and one loop operation to fold with.
ReduceSpec Fold(const Call& call, const ReduceArgs& a, DType accumulate, double identity, loop::Op op) {
  ReduceSpec spec;
  spec.dims = DimsArg(call, a.dim, call.type(0).rank()).value_or(std::vector<int64_t>{});
  spec.keepdim = call.Bool(a.keepdim);
  spec.accumulate = accumulate;
  spec.init = [accumulate, identity](loop::Builder& b) -> Tuple {
    if (accumulate == DType::kBool) return {b.ConstBits(accumulate, identity != 0)};
    return {b.Const(accumulate, identity)};
  };
  spec.lift = [](loop::Builder&, ValueId element) -> Tuple { return {element}; };
  spec.combine = [op](loop::Builder& b, std::span<const ValueId> x, std::span<const ValueId> y) -> Tuple {
    return {b.Apply(op, x[0], y[0])};
  };
  spec.finish = [](loop::Builder&, std::span<const ValueId> total, Sym) -> Tuple { return {total[0]}; };
  return spec;
}

// --- sum, prod, mean ---

// dtype argument, else i64 for integers and bool.
DType SumDType(const Call& call, const ReduceArgs& a) {
  const DType own = call.type(0).dtype;
  return DTypeArg(call, a.dtype, IsInt(own) || own == DType::kBool ? DType::kInt64 : own);
}

// Eager converts the operand to `dtype` first, so each element is rounded to it.
ReduceSpec FoldAs(const Call& call, const ReduceArgs& a, DType dtype, double identity, loop::Op op) {
  ReduceSpec spec = Fold(call, a, ComputeDType(dtype), identity, op);
  if (IsLowPrecisionFloat(dtype) && call.type(0).dtype != dtype) {
    spec.lift = [dtype](loop::Builder& b, ValueId element) -> Tuple { return {RoundTo(dtype, Expr(b, element)).id()}; };
  }
  return spec;
}

// A sum of bools is their disjunction, and their product the conjunction.
ReduceSpec SumSpec(const Call& call, const ReduceArgs& a) {
  const DType dtype = call.result().dtype;
  return FoldAs(call, a, dtype, 0, dtype == DType::kBool ? loop::Op::kOr : loop::Op::kAdd);
}
ReduceSpec ProdSpec(const Call& call, const ReduceArgs& a) {
  const DType dtype = call.result().dtype;
  return FoldAs(call, a, dtype, 1, dtype == DType::kBool ? loop::Op::kAnd : loop::Op::kMul);
}

absl::StatusOr<TypeList> MeanShape(const Call& call, const ReduceArgs& a) {
  const DType dtype = DTypeArg(call, a.dtype, call.type(0).dtype);
  if (!IsFloat(dtype) && !IsComplex(dtype)) return absl::InvalidArgumentError("mean of integers");
  return ReducedShape(call, a, dtype);
}

// The sum, in f32 for low-precision floats, divided by the count.
ReduceSpec MeanSpec(const Call& call, const ReduceArgs& a) {
  const DType accumulate = ComputeDType(call.result().dtype);
  ReduceSpec spec = Fold(call, a, accumulate, 0, loop::Op::kAdd);
  spec.finish = [accumulate](loop::Builder& b, std::span<const ValueId> total, Sym count) -> Tuple {
    return {b.Apply(loop::Op::kDiv, total[0], b.Cast(accumulate, b.Index(count)))};
  };
  return spec;
}

// --- extrema: NaN wins, as in eager ---

double Lowest(DType dtype) {
  if (IsFloat(dtype)) return -std::numeric_limits<double>::infinity();
  return IsUnsignedInt(dtype) ? 0 : -std::ldexp(1.0, 8 * ByteSize(dtype) - 1);
}

ReduceSpec MaxSpec(const Call& call, const ReduceArgs& a) {
  const DType dtype = ComputeDType(call.result().dtype);
  if (dtype == DType::kBool) return Fold(call, a, dtype, 0, loop::Op::kOr);
  return Fold(call, a, dtype, Lowest(dtype), loop::Op::kMax);
}

ReduceSpec MinSpec(const Call& call, const ReduceArgs& a) {
  const DType dtype = ComputeDType(call.result().dtype);
  if (dtype == DType::kBool) return Fold(call, a, dtype, 1, loop::Op::kAnd);
  ReduceSpec spec = Fold(call, a, dtype, 0, loop::Op::kMin);
  spec.init = [dtype](loop::Builder& b) -> Tuple {
    if (IsFloat(dtype)) return {b.Const(dtype, std::numeric_limits<double>::infinity())};
    // The complement of the lowest value; exact where a double would not be.
    return {b.Apply(loop::Op::kNot, b.Const(dtype, Lowest(dtype)))};
  };
  return spec;
}

absl::StatusOr<TypeList> ExtremumShape(const Call& call, const ReduceArgs& a) {
  const absl::StatusOr<std::vector<int64_t>> dims = DimsArg(call, a.dim, call.type(0).rank());
  if (!dims.ok()) return dims.status();
  for (int64_t d : *dims) {
    if (call.syms().IsConst(call.type(0).sizes[d], 0)) {
      return absl::InvalidArgumentError(absl::StrCat("an extremum over dim ", d, " of size 0"));
    }
  }
  return ReducedShape(call, a, call.type(0).dtype);
}

// --- any, all: bool, but u8 of u8 ---

absl::StatusOr<TypeList> TruthShape(const Call& call, const ReduceArgs& a) {
  const DType own = call.type(0).dtype;
  return ReducedShape(call, a, own == DType::kUInt8 ? own : DType::kBool);
}

ReduceSpec AnySpec(const Call& call, const ReduceArgs& a) { return Fold(call, a, DType::kBool, 0, loop::Op::kOr); }
ReduceSpec AllSpec(const Call& call, const ReduceArgs& a) { return Fold(call, a, DType::kBool, 1, loop::Op::kAnd); }

// --- norms ---

// Orders 1, 2 and infinity; others have no meaning here.
ReduceSpec NormSpec(const Call& call, const ReduceArgs& a) {
  const double order = call.Number(1, 2);
  const DType accumulate = ComputeDType(call.result().dtype);
  ReduceSpec spec = Fold(call, a, accumulate, 0, std::isinf(order) ? loop::Op::kMax : loop::Op::kAdd);
  spec.lift = [order](loop::Builder& b, ValueId element) -> Tuple {
    const Expr x(b, element);
    return {order == 2 ? (x * x).id() : Abs(x).id()};
  };
  if (order == 2) {
    spec.finish = [](loop::Builder& b, std::span<const ValueId> total, Sym) -> Tuple {
      return {b.Apply(loop::Op::kSqrt, total[0])};
    };
  }
  return spec;
}

template <ReduceArgs a>
absl::StatusOr<TypeList> SumShapeOf(const Call& call) {
  return ReducedShape(call, a, SumDType(call, a));
}
template <ReduceArgs a, absl::StatusOr<TypeList> (*shape)(const Call&, const ReduceArgs&)>
absl::StatusOr<TypeList> ShapeOf(const Call& call) {
  return shape(call, a);
}
template <ReduceArgs a, ReduceSpec (*spec)(const Call&, const ReduceArgs&)>
ReduceSpec SpecOf(const Call& call) {
  return spec(call, a);
}

// In equal parts to the elements that are the result.
Grads ExtremumVjp(GraphBuilder& graph, const Call& c, std::span<const ValueId> d) {
  OpBuilder b(graph);
  const ValueId best = b.eq(c.value(0), SpreadOverReduced(b, c, ResultOf(c)));
  const ValueId ways = b.sum_dim(b.convert_element_type(best, c.type(0).dtype), c.arg(1), c.arg(2));
  return {b.where(best, SpreadOverReduced(b, c, b.div(d[0], ways)), 0.0)};
}

}  // namespace

KILN_OP(sum) = {
    .schema = "sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    .torch = {"aten.sum.default"},
    .promote = Promote::kNone,
    .shape = SumShapeOf<kFullWithDType>,
    .reduce = SpecOf<kFullWithDType, SumSpec>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {SpreadOverReduced(b, c, d[0])};
    },
};

KILN_OP(sum_dim) = {
    .schema = "sum_dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    .torch = {"aten.sum.dim_IntList"},
    .promote = Promote::kNone,
    .shape = SumShapeOf<kDimsWithDType>,
    .reduce = SpecOf<kDimsWithDType, SumSpec>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {SpreadOverReduced(b, c, d[0])};
    },
};

KILN_OP(prod) = {
    .schema = "prod(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    .torch = {"aten.prod.default"},
    .promote = Promote::kNone,
    .shape = SumShapeOf<kFullWithDType>,
    .reduce = SpecOf<kFullWithDType, ProdSpec>,
};

KILN_OP(prod_dim) = {
    .schema = "prod_dim(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    .torch = {"aten.prod.dim_int"},
    .promote = Promote::kNone,
    .shape = SumShapeOf<kDimsWithDType>,
    .reduce = SpecOf<kDimsWithDType, ProdSpec>,
};

KILN_OP(mean) = {
    .schema = "mean(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    .torch = {"aten.mean.default"},
    .promote = Promote::kNone,
    .shape = ShapeOf<kFullWithDType, MeanShape>,
    .reduce = SpecOf<kFullWithDType, MeanSpec>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {SpreadOverReduced(b, c, b.div(d[0], NumReduced(c)))};
    },
};

KILN_OP(mean_dim) = {
    .schema = "mean_dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    .torch = {"aten.mean.dim"},
    .promote = Promote::kNone,
    .shape = ShapeOf<kDimsWithDType, MeanShape>,
    .reduce = SpecOf<kDimsWithDType, MeanSpec>,
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      return {SpreadOverReduced(b, c, b.div(d[0], NumReduced(c)))};
    },
};

KILN_OP(amax) = {
    .schema = "amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
    .torch = {"aten.amax.default"},
    .promote = Promote::kNone,
    .shape = ShapeOf<kDims, ExtremumShape>,
    .reduce = SpecOf<kDims, MaxSpec>,
    .vjp = ExtremumVjp,
};

KILN_OP(amin) = {
    .schema = "amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
    .torch = {"aten.amin.default"},
    .promote = Promote::kNone,
    .shape = ShapeOf<kDims, ExtremumShape>,
    .reduce = SpecOf<kDims, MinSpec>,
    .vjp = ExtremumVjp,
};

KILN_OP(max) = {
    .schema = "max(Tensor self) -> Tensor",
    .torch = {"aten.max.default"},
    .promote = Promote::kNone,
    .shape = ShapeOf<kFull, ExtremumShape>,
    .reduce = SpecOf<kFull, MaxSpec>,
};

KILN_OP(min) = {
    .schema = "min(Tensor self) -> Tensor",
    .torch = {"aten.min.default"},
    .promote = Promote::kNone,
    .shape = ShapeOf<kFull, ExtremumShape>,
    .reduce = SpecOf<kFull, MinSpec>,
};

KILN_OP(any) = {
    .schema = "any(Tensor self) -> Tensor",
    .torch = {"aten.any.default"},
    .promote = Promote::kNone,
    .shape = ShapeOf<kFull, TruthShape>,
    .reduce = SpecOf<kFull, AnySpec>,
    .no_grad = "the result is a bool",
};

KILN_OP(any_dim) = {
    .schema = "any_dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
    .torch = {"aten.any.dim"},
    .promote = Promote::kNone,
    .shape = ShapeOf<kDims, TruthShape>,
    .reduce = SpecOf<kDims, AnySpec>,
    .no_grad = "the result is a bool",
};

KILN_OP(any_dims) = {
    .schema = "any_dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
    .torch = {"aten.any.dims"},
    .promote = Promote::kNone,
    .shape = ShapeOf<kDims, TruthShape>,
    .reduce = SpecOf<kDims, AnySpec>,
    .no_grad = "the result is a bool",
};

KILN_OP(all) = {
    .schema = "all(Tensor self) -> Tensor",
    .torch = {"aten.all.default"},
    .promote = Promote::kNone,
    .shape = ShapeOf<kFull, TruthShape>,
    .reduce = SpecOf<kFull, AllSpec>,
    .no_grad = "the result is a bool",
};

KILN_OP(all_dim) = {
    .schema = "all_dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
    .torch = {"aten.all.dim"},
    .promote = Promote::kNone,
    .shape = ShapeOf<kDims, TruthShape>,
    .reduce = SpecOf<kDims, AllSpec>,
    .no_grad = "the result is a bool",
};

KILN_OP(all_dims) = {
    .schema = "all_dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
    .torch = {"aten.all.dims"},
    .promote = Promote::kNone,
    .shape = ShapeOf<kDims, TruthShape>,
    .reduce = SpecOf<kDims, AllSpec>,
    .no_grad = "the result is a bool",
};

KILN_OP(linalg_vector_norm) = {
    .schema =
        "linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
        "ScalarType? dtype=None) -> Tensor",
    .torch = {"aten.linalg_vector_norm.default"},
    .promote = Promote::kNone,
    .supports =
        [](const Call& call) {
          const double order = call.Number(1, 2);
          return Known<1>(call) && (order == 1 || order == 2 || order == INFINITY) && IsFloat(call.type(0).dtype) &&
                 call.result().dtype == call.type(0).dtype;
        },
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      return ReducedShape(call, kNorm, DTypeArg(call, kNorm.dtype, call.type(0).dtype));
    },
    .reduce = SpecOf<kNorm, NormSpec>,
};

}  // namespace kiln
