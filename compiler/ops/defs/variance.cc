// Variances: a mean, then the sum of squared differences from it, divided by the count less a correction.
#include <algorithm>

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
  return b.div(sum, b.clamp_min(b.sub(b.scalar_tensor(count, b.type(sum).dtype), correction), 0.0));
}

struct Moments {
  ValueId variance, mean;  // widened
};

Moments MomentsOf(OpBuilder& b, const Call& call) {
  const std::vector<int64_t> dims = *DimsArg(call, 1, call.type(0).rank());
  const bool keepdim = call.Bool(3);
  const ValueId self = WidenedArg(b, call, 0);
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

}  // namespace

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
