#include "compiler/ops/shape_rules.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/ops/promote.h"
#include "compiler/ops/registry.h"

namespace kiln {
namespace {

// -1, 0, 1 as a < b, neither is provable, a > b.
int Compare(SymContext& syms, Sym a, Sym b) {
  if (a == b) return 0;
  if (syms.ProvablyLess(a, b)) return -1;
  return syms.ProvablyLess(b, a) ? 1 : 0;
}

Sym One(SymContext& syms) { return syms.Const(1); }

// Stride of an operand at dim d of the result (`rank` dims), 0 where it is broadcast.
Sym BroadcastStride(SymContext& syms, const TensorType& operand, std::span<const Sym> sizes, size_t d) {
  const size_t missing = sizes.size() - operand.sizes.size();
  if (d < missing) return Sym{};
  const size_t own = d - missing;
  if (syms.IsConst(operand.sizes[own], 1) && !syms.IsConst(sizes[d], 1)) return Sym{};
  return operand.strides[own];
}

// TensorIterator's should_swap: whether dim a belongs inside dim b (positive: b is the faster one).
int CompareDims(SymContext& syms, std::span<const Sym> sizes, std::span<const TensorType* const> operands, size_t a,
                size_t b) {
  for (const TensorType* operand : operands) {
    const Sym sa = BroadcastStride(syms, *operand, sizes, a), sb = BroadcastStride(syms, *operand, sizes, b);
    if (syms.IsConst(sa, 0) || syms.IsConst(sb, 0)) continue;
    if (const int c = Compare(syms, sa, sb); c != 0) return c;
    if (sa == sb && Compare(syms, sizes[a], sizes[b]) > 0) return 1;
  }
  return 0;
}

// Dims from the fastest to the slowest: TensorIterator's insertion sort, which copes with dims that do not compare.
std::vector<size_t> FastestFirst(SymContext& syms, std::span<const Sym> sizes,
                                 std::span<const TensorType* const> operands) {
  std::vector<size_t> perm(sizes.size());
  std::iota(perm.rbegin(), perm.rend(), size_t{0});
  for (size_t i = 1; i < perm.size(); ++i) {
    size_t at = i;
    for (size_t j = i; j-- > 0;) {
      const int c = CompareDims(syms, sizes, operands, perm[j], perm[at]);
      if (c < 0) break;
      if (c > 0) std::swap(perm[j], perm[at]), at = j;
    }
  }
  return perm;
}

std::vector<Sym> DenseStrides(SymContext& syms, std::span<const Sym> sizes, std::span<const size_t> fastest_first) {
  std::vector<Sym> strides(sizes.size());
  Sym stride = One(syms);
  for (size_t d : fastest_first) {
    strides[d] = stride;
    if (!syms.IsConst(sizes[d], 0)) stride = syms.Mul(stride, sizes[d]);
  }
  return strides;
}

// Strides of dims of size 1 mean nothing.
bool SameLayout(SymContext& syms, std::span<const Sym> sizes, std::span<const Sym> a, std::span<const Sym> b) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (a[d] != b[d] && !syms.IsConst(sizes[d], 1)) return false;
  }
  return true;
}

bool IsEmpty(SymContext& syms, std::span<const Sym> sizes) {
  return std::ranges::any_of(sizes, [&](Sym s) { return syms.IsConst(s, 0); });
}

std::vector<const TensorType*> Operands(const Call& call) {
  std::vector<const TensorType*> types;
  for (size_t i = 0; i < call.num_args(); ++i) {
    if (IsOperand(*call.node().def, i)) {
      ForEachValue(std::span(&call.arg(i), 1), [&](ValueId v) { types.push_back(call.graph().type(v)); });
    }
  }
  return types;
}

}  // namespace

absl::StatusOr<TypeList> ElementwiseShape(const Call& call) {
  const std::vector<const TensorType*> operands = Operands(call);
  TensorType type{.dtype = ResultDType(call), .device = DeviceOf(call), .sizes = {}, .strides = {}};
  for (const TensorType* operand : operands) {
    absl::StatusOr<std::vector<Sym>> sizes = BroadcastSizes(call.syms(), type.sizes, operand->sizes);
    if (!sizes.ok()) return sizes.status();
    type.sizes = *std::move(sizes);
  }
  type.strides = ElementwiseStrides(call.syms(), type.sizes, operands);
  return TypeList{std::move(type)};
}

absl::StatusOr<TypeList> LikeArgAt(const Call& call, size_t i) {
  TensorType type = call.type(i);
  type.strides = DenseStridesLike(call.syms(), type);
  return TypeList{std::move(type)};
}

absl::StatusOr<TypeList> AsImported(const Call& call) {
  TypeList types;
  for (size_t i = 0; i < call.node().num_results; ++i) types.push_back(call.result(i));
  return types;
}

std::vector<Sym> ContiguousStrides(SymContext& syms, std::span<const Sym> sizes) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.rbegin(), order.rend(), size_t{0});
  return DenseStrides(syms, sizes, order);
}

std::vector<Sym> DenseStridesLike(SymContext& syms, const TensorType& type) {
  if (IsDense(syms, type)) return type.strides;
  const TensorType* operand = &type;
  return DenseStrides(syms, type.sizes, FastestFirst(syms, type.sizes, std::span(&operand, 1)));
}

bool IsDense(SymContext& syms, const TensorType& type) {
  const TensorType* operand = &type;
  const std::vector<size_t> order = FastestFirst(syms, type.sizes, std::span(&operand, 1));
  Sym expected = One(syms);
  for (size_t d : order) {
    if (syms.IsConst(type.sizes[d], 1)) continue;
    if (type.strides[d] != expected) return false;
    expected = syms.Mul(expected, type.sizes[d]);
  }
  return true;
}

bool IsContiguous(SymContext& syms, const TensorType& type) {
  return IsEmpty(syms, type.sizes) || SameLayout(syms, type.sizes, type.strides, ContiguousStrides(syms, type.sizes));
}

bool IsChannelsLast(SymContext& syms, const TensorType& type) {
  if (type.rank() != 4 && type.rank() != 5) return false;
  return SameLayout(syms, type.sizes, type.strides, ChannelsLastStrides(syms, type.sizes));
}

std::vector<Sym> ChannelsLastStrides(SymContext& syms, std::span<const Sym> sizes) {
  std::vector<size_t> order = {1};  // channels, then the spatial dims from the last to the first, then the batch
  for (size_t d = sizes.size() - 1; d > 1; --d) order.push_back(d);
  order.push_back(0);
  return DenseStrides(syms, sizes, order);
}

std::vector<Sym> StridesFor(SymContext& syms, const TensorType& like, const Arg& memory_format) {
  const MemoryFormat* format = std::get_if<MemoryFormat>(&memory_format.v);
  if (format == nullptr || *format == MemoryFormat::kPreserve) return DenseStridesLike(syms, like);
  if (*format == MemoryFormat::kContiguous || like.rank() < 4) return ContiguousStrides(syms, like.sizes);
  return ChannelsLastStrides(syms, like.sizes);
}

absl::StatusOr<std::vector<Sym>> BroadcastSizes(SymContext& syms, std::span<const Sym> a, std::span<const Sym> b) {
  if (a.size() < b.size()) std::swap(a, b);
  std::vector<Sym> sizes(a.begin(), a.end());
  for (size_t i = 0; i < b.size(); ++i) {
    Sym& size = sizes[a.size() - b.size() + i];
    if (size == b[i] || syms.IsConst(b[i], 1)) continue;
    const bool known = syms.AsConst(size).has_value(), other_known = syms.AsConst(b[i]).has_value();
    if (known && other_known && !syms.IsConst(size, 1)) {
      return absl::InvalidArgumentError(absl::StrCat("sizes ", syms.ToString(size), " and ", syms.ToString(b[i]),
                                                     " of dim ", a.size() - b.size() + i, " do not broadcast"));
    }
    // Two symbolic sizes that differ in form are equal by a guard.
    if (!known ? other_known : syms.IsConst(size, 1)) size = b[i];
  }
  return sizes;
}

std::vector<Sym> ElementwiseStrides(SymContext& syms, std::span<const Sym> sizes,
                                    std::span<const TensorType* const> operands) {
  // The fast path needs operands of one shape: a common dense layout is kept as it is.
  const bool one_shape = !operands.empty() && std::ranges::all_of(operands, [&](const TensorType* t) {
    return std::ranges::equal(t->sizes, sizes);
  });
  if (one_shape) {
    if (std::ranges::all_of(operands, [&](const TensorType* t) { return IsContiguous(syms, *t); })) {
      return ContiguousStrides(syms, sizes);
    }
    if (std::ranges::all_of(operands, [&](const TensorType* t) { return IsChannelsLast(syms, *t); })) {
      return ChannelsLastStrides(syms, sizes);
    }
    const bool one_layout = std::ranges::all_of(
        operands, [&](const TensorType* t) { return t->strides == operands[0]->strides && IsDense(syms, *t); });
    if (one_layout) return operands[0]->strides;
  }
  return DenseStrides(syms, sizes, FastestFirst(syms, sizes, operands));
}

TensorType ContiguousType(SymContext& syms, DType dtype, DeviceType device, std::vector<Sym> sizes) {
  TensorType type{.dtype = dtype, .device = device, .sizes = std::move(sizes), .strides = {}};
  type.strides = ContiguousStrides(syms, type.sizes);
  return type;
}

DeviceType DeviceOf(const Call& call) {
  const TensorType* found = nullptr;
  ForEachValue(call.node().args, [&](ValueId v) {
    const TensorType* type = call.graph().type(v);
    if (found == nullptr || (found->rank() == 0 && type->rank() > 0)) found = type;
  });
  if (found != nullptr) return found->device;
  for (const Arg& arg : call.node().args) {
    if (const DeviceType* device = std::get_if<DeviceType>(&arg.v)) return *device;
  }
  return DeviceType::kCpu;
}

DType DTypeArg(const Call& call, size_t i, DType otherwise) {
  const DType* dtype = i < call.num_args() ? std::get_if<DType>(&call.arg(i).v) : nullptr;
  return dtype ? *dtype : otherwise;
}

Sym Numel(SymContext& syms, std::span<const Sym> sizes) {
  if (sizes.empty()) return syms.Const(1);
  return sizes.size() == 1 ? sizes[0] : syms.Mul(sizes);
}

absl::StatusOr<int64_t> DimArg(const Call& call, size_t i, int64_t rank) {
  const int64_t given = call.ConstInt(i), dim = Call::WrapDim(given, rank);
  if (dim < 0 || dim >= std::max<int64_t>(rank, 1)) {
    return absl::InvalidArgumentError(absl::StrCat("dim ", given, " of a tensor of ", rank, " dims"));
  }
  return dim;
}

absl::StatusOr<std::vector<int64_t>> DimsArg(const Call& call, size_t i, int64_t rank) {
  std::vector<int64_t> dims = call.ConstInts(i);
  if (dims.empty()) {
    dims.resize(rank);
    std::iota(dims.begin(), dims.end(), 0);
    return dims;
  }
  for (int64_t& dim : dims) {
    const int64_t wrapped = Call::WrapDim(dim, rank);
    if (wrapped < 0 || wrapped >= std::max<int64_t>(rank, 1)) {
      return absl::InvalidArgumentError(absl::StrCat("dim ", dim, " of a tensor of ", rank, " dims"));
    }
    dim = wrapped;
  }
  std::ranges::sort(dims);
  if (std::ranges::adjacent_find(dims) != dims.end()) return absl::InvalidArgumentError("a dim appears twice");
  if (rank == 0) dims.clear();  // dim 0 of a 0-dim tensor is allowed and means nothing
  return dims;
}

std::vector<Sym> ReducedSizes(SymContext& syms, std::span<const Sym> sizes, std::span<const int64_t> dims,
                              bool keepdim) {
  std::vector<Sym> result;
  size_t next = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool reduced = next < dims.size() && dims[next] == static_cast<int64_t>(d);
    next += reduced;
    if (!reduced) {
      result.push_back(sizes[d]);
    } else if (keepdim) {
      result.push_back(One(syms));
    }
  }
  return result;
}

Sym WrapIndex(SymContext& syms, Sym index, Sym size) {
  const Sym zero{}, one = One(syms);
  if (syms.ProvablyLessEqual(zero, index)) return index;
  if (syms.ProvablyLess(index, zero)) return syms.Add(index, size);
  const Sym is_negative = syms.Min(syms.Max(syms.Sub(zero, index), zero), one);
  return syms.Add(index, syms.Mul(size, is_negative));
}

SliceBounds NormalizeSlice(const Call& call, Sym size, size_t start_arg, size_t end_arg, size_t step_arg) {
  SymContext& syms = call.syms();
  const Sym zero{};
  // Negative bounds count from the end; both are clamped to the dim.
  const auto normalize = [&](size_t arg, Sym otherwise) {
    if (call.is_none(arg)) return otherwise;
    Sym s = WrapIndex(syms, call.Int(arg), size);
    // The largest int64 stands for "to the end" and bounds every size.
    if (syms.IsConst(s, std::numeric_limits<int64_t>::max()) || syms.ProvablyLessEqual(size, s)) return size;
    if (!syms.ProvablyLessEqual(zero, s)) s = syms.Max(s, zero);
    return syms.ProvablyLessEqual(s, size) ? s : syms.Min(s, size);
  };
  SliceBounds bounds{.start = normalize(start_arg, zero), .length = {}, .step = call.Int(step_arg, 1)};
  Sym end = normalize(end_arg, size);
  if (!syms.ProvablyLessEqual(bounds.start, end)) end = syms.Max(end, bounds.start);
  bounds.length = syms.CeilDiv(syms.Sub(end, bounds.start), bounds.step);
  return bounds;
}

}  // namespace kiln
