// One record an op: everything that the system knows of it. Records live in ops/defs/*.cc as KILN_OP(name) = {…}; a
// generator finds them by that word, so there is no registration and no hand-kept list (ops/README.md: how to add an
// op).
//
// A record has one meaning: `lower` (element by element), `view` (index maths), `reduce`, `order` (a scan or a
// scatter), or `decompose`. A record without a meaning, and any operator without a record, runs as an external call.
//
// Meanings are *pulled*: the lowering asks for the element of a result at an index, and the record asks for elements of
// its operands at indices. So views are never copies, producers fuse into consumers, and fusion needs no op's name.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/loop/builder.h"

namespace kiln {

class GraphBuilder;

// How operands are converted before `lower` sees them, and what the result's dtype is: torch's kinds (ops/promote.h has
// the rules, 0-dim tensors and Python numbers included). Operands are the arguments whose schema type is Tensor,
// Tensor?, Tensor[] or Tensor|Scalar; an argument of type Scalar (alpha, a threshold) is a parameter and takes no part.
// An operand is converted to the promoted dtype, rounding or wrapping there as eager does, and then arrives widened to
// ComputeDType of it.
enum class Promote : uint8_t {
  kDefault,     // the common dtype of all tensor and number operands; the result has it too
  kIntToFloat,  // likewise, integers and bool become the default float
  kCompare,     // common dtype in, bool out
  kResult,      // operands are converted to the result's own dtype (casts, backward formulas)
  kNone,        // operands arrive in ComputeDType of their own dtype; the record casts
};

struct Traits {
  bool random = false;          // draws from a generator: kept in graph order, never recomputed
  bool compute_heavy = false;   // recomputed only for a memory budget below 1
  bool data_dependent = false;  // the result's shape depends on data
  bool effect = false;
  // An external call that works in the layout of its first so many arguments, which are to have one: its results of
  // four dims have it too.
  uint8_t follows_layout = 0;
  bool prefers_channels_last = false;  // and is fastest in this one
};

// A node as its record sees it.
class Call {
 public:
  Call(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}
  const Graph& graph() const { return graph_; }
  const Node& node() const { return node_; }
  SymContext& syms() const { return graph_.syms(); }
  size_t num_args() const { return node_.args.size(); }
  const Arg& arg(size_t i) const { return node_.args[i]; }
  bool is_tensor(size_t i) const { return i < num_args() && node_.args[i].is_value(); }
  bool is_none(size_t i) const { return i >= num_args() || node_.args[i].is_none(); }
  ValueId value(size_t i) const;           // of a tensor argument
  const TensorType& type(size_t i) const;  // of a tensor argument
  const TensorType& result(size_t i = 0) const;
  // Typed access; the verifier has checked the arguments against the schema, so a wrong kind is our bug: the default is
  // returned.
  Sym Int(size_t i, int64_t otherwise = 0) const;
  int64_t ConstInt(size_t i, int64_t otherwise = 0) const;  // dims, flags
  double Number(size_t i, double otherwise = 0) const;      // int, float or bool
  bool IsFloatNumber(size_t i) const;
  bool Bool(size_t i, bool otherwise = false) const;
  std::vector<Sym> Ints(size_t i) const;
  std::vector<int64_t> ConstInts(size_t i) const;
  std::vector<ValueId> Values(size_t i) const;  // Tensor[]; kNoValue for None items
  std::string_view String(size_t i) const;
  // A dim argument made non-negative for a tensor of `rank` dims.
  static int64_t WrapDim(int64_t dim, int64_t rank) { return dim < 0 ? dim + (rank == 0 ? 1 : rank) : dim; }

 private:
  const Graph& graph_;
  const Node& node_;
};

// What `lower` works with: the element at `index()` of the result. Implemented by lower/ and by the interpreter.
class Element {
 public:
  virtual ~Element() = default;
  virtual loop::Builder& b() = 0;
  virtual const Call& call() const = 0;
  virtual std::span<const Sym> index() const = 0;
  // Argument i (tensor or number) at the result's index, broadcast as torch does, converted as the record's Promote
  // says.
  virtual loop::ValueId operator[](size_t i) = 0;
  // Tensor argument i (item k of a list) at any index of its own rank, converted likewise. Where `mask` (a bool value)
  // is false nothing is read and the result is zero.
  virtual loop::ValueId At(size_t i, std::span<const Sym> index, size_t k = 0, loop::ValueId mask = loop::kNone) = 0;
  // The same without any conversion but to ComputeDType: for indices, conditions, masks.
  virtual loop::ValueId Raw(size_t i, std::span<const Sym> index, size_t k = 0) = 0;
  // ComputeDType of the promoted dtype: the type of operator[] and At.
  virtual DType compute() const = 0;
};

// A reduction of argument 0 over `dims`, as a tuple of accumulators.
struct ReduceSpec {
  std::vector<int64_t> dims;  // of argument 0, wrapped, sorted, distinct; all of them for a full reduction
  bool keepdim = false;
  DType accumulate = DType::kFloat32;                              // operands are converted to this
  std::function<std::vector<loop::ValueId>(loop::Builder&)> init;  // an identity of combine
  // The tuple of one element; `element` is in `accumulate`.
  std::function<std::vector<loop::ValueId>(loop::Builder&, loop::ValueId element)> lift;
  loop::Builder::Combine combine;
  // The results (one a result of the node) from the folded tuple; `count` is the number of elements folded. The
  // lowering then rounds each to its result's dtype.
  std::function<std::vector<loop::ValueId>(loop::Builder&, std::span<const loop::ValueId>, Sym count)> finish;
};

using Results = std::vector<loop::ValueId>;  // one a result of the node

// One step of an OrderSpec.
struct Update {
  Element& e;                            // index() is the point in the space of updates
  std::span<const loop::ValueId> carry;  // left by the update before
  // What result 0 holds at an index at the moment, in ComputeDType of its dtype.
  std::function<loop::ValueId(std::span<const Sym> index)> stored;
};
struct Updated {
  std::vector<Sym> index;            // of all results
  Results results;                   // to be there from now on, rounded to the results' dtypes
  loop::ValueId mask = loop::kNone;  // false: nothing is written
  std::vector<loop::ValueId> carry = {};
};

// What is computed in order: a scan (each element from those before it) or a scatter (elements are put where indices
// say, over what is there). Updates have a space of their own; along some of its dims they come one after the other,
// along the others in any order and at the same time.
struct OrderSpec {
  std::vector<Sym> sizes;  // of the space of updates
  // Gone along in order, row-major: sorted, distinct.
  std::vector<int64_t> dims = {};
  // For each other dim, in order: the results' dim, of the same size, that every update's index goes to unchanged.
  std::vector<int64_t> result_dims = {};
  // What one update leaves to the next.
  std::function<std::vector<loop::ValueId>(loop::Builder&)> init = {};
  std::function<Updated(const Update&)> update = {};
};

using TypeList = std::vector<TensorType>;
using Values = std::vector<ValueId>;  // of a decomposition; kNoValue for a result that is None
using Grads = std::vector<ValueId>;   // one a tensor argument, kNoValue: none

using ShapeFn = absl::StatusOr<TypeList> (*)(const Call&);
using LowerFn = Results (*)(Element&);
// Index of argument 0 for index `index` of result `result`.
using ViewFn = std::vector<Sym> (*)(const Call&, size_t result, std::span<const Sym> index);
using ReduceFn = ReduceSpec (*)(const Call&);
using OrderFn = OrderSpec (*)(const Call&);
using DecomposeFn = Values (*)(GraphBuilder&, const Call&);
// cotangents: one a result, kNoValue where it is zero.
using VjpFn = Grads (*)(GraphBuilder&, const Call&, std::span<const ValueId> cotangents);
// The operands of one element: x[i] is argument i's element (or number), already rounded as Promote says.
struct RefArgs {
  const Call& call;
  std::span<const double> x;
  double operator[](size_t i) const { return x[i]; }
};
// The independent fp64 answer of one element (pointwise records only).
using RefFn = double (*)(const RefArgs&);

// Inputs that tests draw: elements uniform in [low, high]; special adds NaN, ±inf, ±0, subnormals and the extremes.
// `args` gives arguments other than tensors, as "alpha=2, approximate='tanh'"; those not named take the schema's
// default.
struct Sample {
  double low = -1;
  double high = 1;
  bool special = false;
  std::string_view args = {};
};

// How far `lower` may be from `ref`: `ulp` units in the last place of the compute dtype, taken at |ref|, or at `floor`
// where |ref| is smaller (terms that cancel leave the error of their own size); and, for low-precision results,
// `result_ulp` units in the last place of their dtype (more than the final half where eager rounds intermediates too).
struct Budget {
  double ulp = 0.5;
  double floor = 0;
  double result_ulp = 0.5;
};

// Element types for which a meaning holds (of the promoted dtype); with others the node runs as an external call.
enum DTypeSet : uint8_t {
  kBools = 1,
  kInts = 2,
  kFloats = 4,
  kNumbers = kInts | kFloats,
  kAllDTypes = kBools | kInts | kFloats
};

struct OpDef {
  // "add(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor": torch's syntax without alias marks;
  // Tensor|Scalar takes either. What comes before '(' is the record's name. schema.h parses it.
  std::string_view schema = {};
  std::vector<std::string_view> torch = {};  // overloads that mean this, arguments in the same order
  Promote promote = Promote::kDefault;
  DTypeSet dtypes = kAllDTypes;
  bool (*supports)(const Call&) =
      nullptr;  // whether the meaning covers this call; null: always. Ask HasMeaning (registry.h)
  Traits traits = {};
  ShapeFn shape = nullptr;
  LowerFn lower = nullptr;
  ViewFn view = nullptr;
  ReduceFn reduce = nullptr;
  OrderFn order = nullptr;  // `lower`, if there is one, gives what the results hold before the first update
  DecomposeFn decompose = nullptr;
  // Of a gradient that needs less of an operand than all its bits (which way a relu went, where in a small plane a
  // maximum was): the same from a narrower tensor of the operand's sizes and strides, which the partition may save in
  // its place. Nothing (an empty vector) for calls where that can't be had.
  DecomposeFn narrow = nullptr;
  VjpFn vjp = nullptr;
  std::string_view no_grad = {};  // why there is no vjp
  RefFn ref = nullptr;
  std::vector<Sample> samples = {};
  Budget budget = {};

  std::string_view name() const { return schema.substr(0, schema.find('(')); }
  bool has_meaning() const { return lower || view || reduce || order || decompose; }
};

// Declares first, so that the definition has external linkage in spite of const.
#define KILN_OP(name)                    \
  extern const ::kiln::OpDef kOp_##name; \
  const ::kiln::OpDef kOp_##name

}  // namespace kiln
