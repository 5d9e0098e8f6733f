// Types of results: sizes, strides, dtype and device as eager's own kernels (and so torch's meta functions) give them.
//
// Sizes may be symbolic. Where a rule has to compare two that cannot be ordered, it takes the branch that holds for
// tensors in general (not size 1, not broadcast); an imported node keeps the strides that the client says, so this only
// decides the layout of nodes that the compiler itself makes.
#pragma once

#include <span>
#include <vector>

#include "compiler/ops/op_def.h"

namespace kiln {

// --- rules for whole records ---

// Broadcast of all operands (and list items), TensorIterator's strides, the record's promoted dtype.
absl::StatusOr<TypeList> ElementwiseShape(const Call& call);

// The type of tensor argument I as empty_like gives it: sizes, dtype and device, strides dense in the same order of
// dims.
template <size_t I>
absl::StatusOr<TypeList> LikeArg(const Call& call);

// The types that the node already has. For operators that only ever come from a client, whose meta function is the
// rule.
absl::StatusOr<TypeList> AsImported(const Call& call);

// --- parts ---

std::vector<Sym> ContiguousStrides(SymContext& syms, std::span<const Sym> sizes);
// Strides of empty_like(memory_format=preserve): those of `type` if it is dense without overlap, else dense in the same
// order of dims.
std::vector<Sym> DenseStridesLike(SymContext& syms, const TensorType& type);
// Whether the elements fill a block of memory without gap or overlap, in some order of dims.
bool IsDense(SymContext& syms, const TensorType& type);
bool IsContiguous(SymContext& syms, const TensorType& type);
bool IsChannelsLast(SymContext& syms, const TensorType& type);  // of 4-D and 5-D tensors
std::vector<Sym> ChannelsLastStrides(SymContext& syms, std::span<const Sym> sizes);
// Applies an explicit MemoryFormat argument (None and preserve: as `like`).
std::vector<Sym> StridesFor(SymContext& syms, const TensorType& like, const Arg& memory_format);

// InvalidArgument if two sizes are known to differ and neither is 1.
absl::StatusOr<std::vector<Sym>> BroadcastSizes(SymContext& syms, std::span<const Sym> a, std::span<const Sym> b);
// Strides that TensorIterator gives an output of `sizes` from its operands.
std::vector<Sym> ElementwiseStrides(SymContext& syms, std::span<const Sym> sizes,
                                    std::span<const TensorType* const> operands);

TensorType ContiguousType(SymContext& syms, DType dtype, DeviceType device, std::vector<Sym> sizes);
// Device of the first tensor with dims, else of the first tensor, else of a Device argument, else the CPU.
DeviceType DeviceOf(const Call& call);
// The dtype argument i, or `otherwise` where it is None.
DType DTypeArg(const Call& call, size_t i, DType otherwise);
// Number of elements.
Sym Numel(SymContext& syms, std::span<const Sym> sizes);
// Argument i as a dim of a tensor of `rank` dims, wrapped; InvalidArgument if out of range.
absl::StatusOr<int64_t> DimArg(const Call& call, size_t i, int64_t rank);
// Argument i as a list of dims, wrapped and sorted; all dims where it is None or empty. InvalidArgument: out of range,
// repeated.
absl::StatusOr<std::vector<int64_t>> DimsArg(const Call& call, size_t i, int64_t rank);
// Sizes without (or, with keepdim, 1 at) the sorted `dims`.
std::vector<Sym> ReducedSizes(SymContext& syms, std::span<const Sym> sizes, std::span<const int64_t> dims,
                              bool keepdim);

// An index of a dim of `size` where negative ones count from the end: exact whatever its sign, and simple where that is
// provable.
Sym WrapIndex(SymContext& syms, Sym index, Sym size);

// Bounds of slice(dim, start, end, step), normalised as torch does: 0 <= start <= end <= size.
struct SliceBounds {
  Sym start, length, step;
};
SliceBounds NormalizeSlice(const Call& call, Sym size, size_t start_arg, size_t end_arg, size_t step_arg);

// --- implementation ---

absl::StatusOr<TypeList> LikeArgAt(const Call& call, size_t i);

template <size_t I>
absl::StatusOr<TypeList> LikeArg(const Call& call) {
  return LikeArgAt(call, I);
}

}  // namespace kiln
