// Scans: each element from those before it along one dim.
//
// Accumulators are eager's (aten/src/ATen/native/cpu/ReduceOpsKernel.cpp, cumsum and cumprod: acc_type on the CPU,
// which is double for float).
#include <utility>

#include "compiler/ops/lower_rules.h"
#include "compiler/ops/op_builder.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/ops/vjp_rules.h"

namespace kiln {
namespace {

DType AccumulateType(DType dtype) { return dtype == DType::kFloat32 ? DType::kFloat64 : ComputeDType(dtype); }

OrderSpec Scan(const Call& call, loop::Op op, int64_t identity) {
  OrderSpec spec{.sizes = call.result().sizes};
  const int64_t dim = Call::WrapDim(call.ConstInt(1), call.result().rank());
  spec.dims = {dim};
  for (int64_t d = 0; d < call.result().rank(); ++d) {
    if (d != dim) spec.result_dims.push_back(d);
  }
  const DType accumulate = AccumulateType(call.result().dtype);
  spec.init = [=](loop::Builder& b) { return std::vector{b.ConstInt(accumulate, identity)}; };
  spec.update = [=](const Update& at) -> Updated {
    loop::Builder& b = at.e.b();
    const loop::ValueId x = b.Cast(accumulate, at.e.At(0, at.e.index()));
    const loop::ValueId total = b.Apply(op, at.carry[0], x);
    return {.index = {at.e.index().begin(), at.e.index().end()}, .results = {total}, .carry = {total}};
  };
  return spec;
}

bool HasDims(const Call& call) { return call.type(0).rank() > 0; }

absl::StatusOr<TypeList> ScanShape(const Call& call) {
  const TensorType& self = call.type(0);
  if (absl::StatusOr<int64_t> dim = DimArg(call, 1, self.rank()); !dim.ok()) return dim.status();
  const bool whole = IsInt(self.dtype) || self.dtype == DType::kBool;
  const DType dtype = DTypeArg(call, 2, whole ? DType::kInt64 : self.dtype);
  return TypeList{ContiguousType(call.syms(), dtype, self.device, self.sizes)};
}

}  // namespace

KILN_OP(cumsum) = {
    .schema = "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    .torch = {"aten.cumsum.default"},
    .promote = Promote::kResult,
    .dtypes = kNumbers,
    .supports = HasDims,
    .shape = ScanShape,
    .order = [](const Call& call) { return Scan(call, loop::Op::kAdd, 0); },
    .vjp = [](GraphBuilder& graph, const Call& c, std::span<const ValueId> d) -> Grads {
      OpBuilder b(graph);
      const std::vector<int64_t> dim = {c.ConstInt(1)};
      return {b.flip(b.cumsum(b.flip(d[0], dim), c.ConstInt(1)), dim)};
    },
};

KILN_OP(cumprod) = {
    .schema = "cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    .torch = {"aten.cumprod.default"},
    .promote = Promote::kResult,
    .dtypes = kNumbers,
    .supports = HasDims,
    .shape = ScanShape,
    .order = [](const Call& call) { return Scan(call, loop::Op::kMul, 1); },
};

}  // namespace kiln
