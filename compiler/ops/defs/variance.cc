// Variances: a mean and the sum of squared differences from it, divided by the count less a correction. Rows that stay
// in cache are gone over twice; longer ones once, by the update of Welford (1962) as Chan, Golub and LeVeque (1979)
// have it for two parts.
#include <algorithm>
#include <utility>

#include "compiler/ops/decompose_rules.h"
#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"

namespace kiln {
namespace {

// self, dim, correction, keepdim
absl::StatusOr<TypeList> OneResult(const Call& call) {
  const TensorType& self = call.type(0);
  const absl::StatusOr<std::vector<int64_t>> dims = DimsArg(call, 1, self.rank());
  if (!dims.ok()) return dims.status();
  std::vector<Sym> sizes = ReducedSizes(call.syms(), self.sizes, *dims, call.Bool(3));
  return TypeList{ContiguousType(call.syms(), self.dtype, self.device, std::move(sizes))};
}

absl::StatusOr<TypeList> TwoResults(const Call& call) {
  absl::StatusOr<TypeList> types = OneResult(call);
  if (types.ok()) types->push_back((*types)[0]);
  return types;
}

bool SupportsVariance(const Call& call) { return IsFloat(call.type(0).dtype) && Known<2>(call); }

// max(count - correction, 0)
ValueId OverFreedom(OpBuilder& b, const Call& call, ValueId sum, const std::vector<int64_t>& dims) {
  SymContext& syms = b.syms();
  Sym count = syms.Const(1);
  for (int64_t d : dims) count = syms.Mul(count, call.type(0).sizes[d]);
  const double correction = call.Number(2, 1);
  if (correction == 0) return b.div(sum, count);
  if (const auto known = syms.AsConst(count)) {
    return b.div(sum, std::max(static_cast<double>(*known) - correction, 0.0));
  }
  return b.div(
      sum,
      b.clamp_min(b.sub(b.scalar_tensor(count, b.type(sum).dtype, std::nullopt, b.type(sum).device), correction), 0.0));
}

struct Moments {
  ValueId variance, mean;  // widened
};

// Elements of a row that is read twice.
constexpr int64_t kLongRow = 16384;

bool AreLong(const Call& call, const std::vector<int64_t>& dims) {
  Sym count = call.syms().Const(1);
  for (const int64_t d : dims) count = call.syms().Mul(count, call.type(0).sizes[d]);
  return call.syms().AsConst(count).value_or(kLongRow) > kLongRow;
}

Moments MomentsOf(OpBuilder& b, const Call& call) {
  const std::vector<int64_t> dims = *DimsArg(call, 1, call.type(0).rank());
  const bool keepdim = call.Bool(3);
  const ValueId self = WidenedArg(b, call, 0);
  if (AreLong(call, dims)) {
    ArgList list;
    for (const int64_t d : dims) list.push_back({b.syms().Const(d)});
    const std::vector<ValueId> moments =
        b.Add(op::moments(), {Arg{ValueRef{self}}, Arg{std::move(list)}, Arg{keepdim}});
    if (moments.empty()) return {};
    return {OverFreedom(b, call, moments[1], dims), moments[0]};
  }
  const ValueId mean = b.mean_dim(self, dims, true), centered = b.sub(self, mean);
  const ValueId sum = b.sum_dim(b.mul(centered, centered), dims, keepdim);
  return {OverFreedom(b, call, sum, dims), keepdim ? mean : b.mean_dim(self, dims, false)};
}

template <bool root, bool with_mean>
Values Variance(GraphBuilder& graph, const Call& call) {
  OpBuilder b(graph);
  const Moments m = MomentsOf(b, call);
  Values out = {AsResult(b, call, root ? b.sqrt(m.variance) : m.variance)};
  if (with_mean) out.push_back(AsResult(b, call, m.mean, 1));
  return out;
}

ReduceSpec Welford(const Call& call) {
  using Tuple = std::vector<loop::ValueId>;  // mean, sum of squared differences, count
  const DType type = call.result().dtype;
  ReduceSpec spec;
  spec.dims = DimsArg(call, 1, call.type(0).rank()).value_or(std::vector<int64_t>{});
  spec.keepdim = call.Bool(2);
  spec.accumulate = type;
  spec.init = [type](loop::Builder& b) -> Tuple { return Tuple(3, b.Const(type, 0)); };
  spec.lift = [type](loop::Builder& b, loop::ValueId x) -> Tuple { return {x, b.Const(type, 0), b.Const(type, 1)}; };
  spec.combine = [type](loop::Builder& b, std::span<const loop::ValueId> x, std::span<const loop::ValueId> y) -> Tuple {
    using loop::Op;
    const loop::ValueId zero = b.Const(type, 0), count = b.Apply(Op::kAdd, x[2], y[2]);
    const loop::ValueId share = b.Select(b.Apply(Op::kEq, count, zero), zero, b.Apply(Op::kDiv, y[2], count));
    const loop::ValueId delta = b.Apply(Op::kSub, y[0], x[0]), step = b.Apply(Op::kMul, delta, share);
    const loop::ValueId more = b.Apply(Op::kMul, b.Apply(Op::kMul, delta, step), x[2]);
    return {b.Apply(Op::kAdd, x[0], step), b.Apply(Op::kAdd, b.Apply(Op::kAdd, x[1], y[1]), more), count};
  };
  spec.finish = [](loop::Builder&, std::span<const loop::ValueId> total, Sym) -> Tuple { return {total[0], total[1]}; };
  return spec;
}

absl::StatusOr<TypeList> MomentsShape(const Call& call) {
  const TensorType& self = call.type(0);
  const absl::StatusOr<std::vector<int64_t>> dims = DimsArg(call, 1, self.rank());
  if (!dims.ok()) return dims.status();
  std::vector<Sym> sizes = ReducedSizes(call.syms(), self.sizes, *dims, call.Bool(2));
  const TensorType type = ContiguousType(call.syms(), self.dtype, self.device, std::move(sizes));
  return TypeList{type, type};
}

}  // namespace

// Mean and sum of squared differences from it, of f32 or f64 in one pass.
KILN_OP(moments) = {
    .schema = "moments(Tensor self, int[1]? dim, bool keepdim=False) -> (Tensor mean, Tensor m2)",
    .promote = Promote::kNone,
    .shape = MomentsShape,
    .reduce = Welford,
};

KILN_OP(var) = {
    .schema = "var(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
    .torch = {"aten.var.correction"},
    .supports = SupportsVariance,
    .shape = OneResult,
    .decompose = Variance<false, false>,
};

KILN_OP(std) = {
    .schema = "std(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
    .torch = {"aten.std.correction"},
    .supports = SupportsVariance,
    .shape = OneResult,
    .decompose = Variance<true, false>,
};

KILN_OP(var_mean) = {
    .schema =
        "var_mean(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)",
    .torch = {"aten.var_mean.correction"},
    .supports = SupportsVariance,
    .shape = TwoResults,
    .decompose = Variance<false, true>,
};

KILN_OP(std_mean) = {
    .schema =
        "std_mean(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)",
    .torch = {"aten.std_mean.correction"},
    .supports = SupportsVariance,
    .shape = TwoResults,
    .decompose = Variance<true, true>,
};

}  // namespace kiln
