#include "compiler/ops/eval.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/graph/builder.h"
#include "compiler/loop/builder.h"
#include "compiler/loop/interp.h"
#include "compiler/loop/verify.h"
#include "compiler/ops/lower_rules.h"
#include "compiler/ops/promote.h"
#include "compiler/ops/registry.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/ops/view_rules.h"

namespace kiln {
namespace {

using Index = std::vector<Sym>;

// The node alone, with numbers for sizes: its operands are the inputs of the graph, contiguous.
struct LoneNode {
  std::shared_ptr<const Graph> graph;
  std::vector<ValueId> operands;  // of the node's own graph, one an input
};

class LoneNodeMaker {
 public:
  explicit LoneNodeMaker(const NodeRun& run) : run_(run), builder_(std::make_shared<SymContext>()) {}

  absl::StatusOr<LoneNode> Make() {
    const Node& node = run_.node();
    absl::Status status;
    ForEachValue(node.args, [&](ValueId v) {
      if (!status.ok() || renamed_.contains(v)) return;
      absl::StatusOr<TensorType> type = Concrete(*run_.graph().type(v));
      status = type.status();
      if (!status.ok()) return;
      renamed_[v] = builder_.AddInput(*std::move(type));
      operands_.push_back(v);
    });
    if (!status.ok()) return status;
    std::vector<Arg> args;
    for (const Arg& arg : node.args) {
      absl::StatusOr<Arg> renamed = Rename(arg);
      if (!renamed.ok()) return renamed.status();
      args.push_back(*std::move(renamed));
    }
    GraphBuilder::ResultTypes results;
    for (uint32_t r = 0; r < node.num_results; ++r) {
      const TensorType* type = run_.graph().type(node.first_result + r);
      if (type == nullptr) return absl::UnimplementedError("a result that is None");
      absl::StatusOr<TensorType> concrete = Concrete(*type);
      if (!concrete.ok()) return concrete.status();
      results.push_back(*std::move(concrete));
    }
    builder_.AddNode(run_.graph().op_name(node), node.def, std::move(args), results);
    absl::StatusOr<std::shared_ptr<const Graph>> graph = builder_.Build();
    if (!graph.ok()) return graph.status();
    return LoneNode{*std::move(graph), std::move(operands_)};
  }

 private:
  absl::StatusOr<TensorType> Concrete(const TensorType& type) {
    absl::StatusOr<std::vector<int64_t>> sizes = run_.Sizes(type);
    if (!sizes.ok()) return sizes.status();
    std::vector<Sym> known;
    for (int64_t size : *sizes) known.push_back(builder_.syms().Const(size));
    return ContiguousType(builder_.syms(), type.dtype, type.device, std::move(known));
  }

  absl::StatusOr<Arg> Rename(const Arg& arg) {
    if (const auto* ref = std::get_if<ValueRef>(&arg.v)) return Arg{ValueRef{renamed_.at(ref->id)}};
    if (const Sym* sym = std::get_if<Sym>(&arg.v)) {
      const absl::StatusOr<int64_t> value = run_.Eval(*sym);
      if (!value.ok()) return value.status();
      return Arg{builder_.syms().Const(*value)};
    }
    const ArgList* list = arg.list();
    if (list == nullptr) return arg;
    ArgList items;
    for (const Arg& item : *list) {
      absl::StatusOr<Arg> renamed = Rename(item);
      if (!renamed.ok()) return renamed.status();
      items.push_back(*std::move(renamed));
    }
    return Arg{std::move(items)};
  }

  const NodeRun& run_;
  GraphBuilder builder_;
  absl::flat_hash_map<ValueId, ValueId> renamed_;
  std::vector<ValueId> operands_;
};

Sym FlatIndex(SymContext& syms, std::span<const Sym> index, std::span<const Sym> strides) {
  Sym flat{};
  for (size_t d = 0; d < index.size(); ++d) flat = syms.Add(flat, syms.Mul(index[d], strides[d]));
  return flat;
}

// Operands are buffers 0, 1, … of the kernel, in the order of the graph's inputs (whose value ids they are).
class ReferenceElement : public Element {
 public:
  ReferenceElement(const Call& call, loop::Builder& b, Index index)
      : call_(call), b_(b), index_(std::move(index)), promoted_(PromotedDType(call)) {}

  loop::Builder& b() override { return b_; }
  const Call& call() const override { return call_; }
  std::span<const Sym> index() const override { return index_; }
  DType compute() const override { return ComputeDType(promoted_); }

  loop::ValueId operator[](size_t i) override {
    if (!call_.is_tensor(i)) return NumberOperand(*this, i, promoted_).id();
    return At(i, BroadcastIndex(call_.syms(), index_, call_.result().sizes, call_.type(i).sizes));
  }

  loop::ValueId At(size_t i, std::span<const Sym> index, size_t k = 0, loop::ValueId mask = loop::kNone) override {
    loop::ValueId value = Load(i, index, k, mask);
    if (call_.node().def->promote != Promote::kNone && IsOperand(*call_.node().def, i)) {
      value = b_.Cast(promoted_, value);
    }
    return Widen(value);
  }

  loop::ValueId Raw(size_t i, std::span<const Sym> index, size_t k = 0) override {
    return Widen(Load(i, index, k, loop::kNone));
  }

 private:
  loop::ValueId Widen(loop::ValueId value) { return b_.Cast(ComputeDType(b_.TypeOf(value)), value); }

  loop::ValueId Load(size_t i, std::span<const Sym> index, size_t k, loop::ValueId mask) {
    const ValueId operand = call_.is_tensor(i) ? call_.value(i) : call_.Values(i)[k];
    return b_.Load(operand, FlatIndex(call_.syms(), index, call_.graph().type(operand)->strides), mask);
  }

  const Call& call_;
  loop::Builder& b_;
  Index index_;
  DType promoted_;
};

// Writes the node's kernel: results are the buffers after the operands.
class ReferenceKernel {
 public:
  explicit ReferenceKernel(const Graph& graph) : call_(graph, graph.nodes()[0]) {
    kernel_.syms = graph.shared_syms();
    for (ValueId v = 0; v < graph.num_values(); ++v) {
      const bool is_result = v >= call_.node().first_result;
      kernel_.buffers.push_back({.dtype = graph.type(v)->dtype,
                                 .size = Numel(graph.syms(), graph.type(v)->sizes),
                                 .access = is_result ? ResultAccess() : loop::Access::kRead});
    }
  }

  absl::StatusOr<loop::Kernel> Write() {
    loop::Builder b(kernel_, kernel_.body);
    b.BeginFor(loop::AxisKind::kParallel, b.syms().Const(1), 1, b.syms().Const(1));
    const OpDef& def = *call_.node().def;
    if (def.lower != nullptr) {
      ForEachIndex(b, call_.result().sizes, [&](const Index& index) { Pointwise(b, index); });
      if (def.order != nullptr) Updates(b);
    } else if (def.order != nullptr) {
      Updates(b);
    } else if (def.view != nullptr) {
      for (uint32_t r = 0; r < call_.node().num_results; ++r) {
        ForEachIndex(b, call_.result(r).sizes, [&](const Index& index) { View(b, r, index); });
      }
    } else {
      ForEachIndex(b, call_.result().sizes, [&](const Index& index) { Reduction(b, index); });
    }
    b.EndFor();
    if (!b.status().ok()) return b.status();
    return std::move(kernel_);
  }

 private:
  template <typename F>
  void ForEachIndex(loop::Builder& b, const std::vector<Sym>& sizes, F f) {
    Index index;
    for (Sym size : sizes) index.push_back(b.BeginFor(loop::AxisKind::kSerial, size));
    f(index);
    for (size_t d = 0; d < sizes.size(); ++d) b.EndFor();
  }

  loop::Access ResultAccess() const {
    return call_.node().def->order != nullptr ? loop::Access::kReadWrite : loop::Access::kWrite;
  }

  void StoreResult(loop::Builder& b, uint32_t r, const Index& index, loop::ValueId value,
                   loop::ValueId mask = loop::kNone) {
    const TensorType& type = call_.result(r);
    b.Store(call_.node().first_result + r, FlatIndex(call_.syms(), index, type.strides), b.Cast(type.dtype, value),
            mask);
  }

  // The dims that are gone along in any order outside; what is carried starts anew at each point of them.
  void Updates(loop::Builder& b) {
    const OrderSpec spec = call_.node().def->order(call_);
    Index index(spec.sizes.size());
    const auto open = [&](bool in_order) {
      for (size_t d = 0; d < index.size(); ++d) {
        const bool ordered = std::ranges::find(spec.dims, static_cast<int64_t>(d)) != spec.dims.end();
        if (ordered == in_order) index[d] = b.BeginFor(loop::AxisKind::kSerial, spec.sizes[d]);
      }
    };
    open(false);
    std::vector<loop::ValueId> carry = spec.init ? spec.init(b) : std::vector<loop::ValueId>();
    std::vector<loop::BufferId> scratch;
    for (const loop::ValueId value : carry) {
      scratch.push_back(static_cast<loop::BufferId>(kernel_.buffers.size()));
      kernel_.buffers.push_back({.dtype = b.TypeOf(value),
                                 .size = b.syms().Const(1),
                                 .space = loop::Space::kRegister,
                                 .access = loop::Access::kReadWrite});
      b.Store(scratch.back(), Sym{}, value);
    }
    open(true);
    for (size_t k = 0; k < carry.size(); ++k) carry[k] = b.Load(scratch[k], Sym{});
    ReferenceElement element(call_, b, index);
    const auto stored = [&](std::span<const Sym> at) {
      const TensorType& type = call_.result();
      const loop::ValueId value = b.Load(call_.node().first_result, FlatIndex(call_.syms(), at, type.strides));
      return b.Cast(ComputeDType(type.dtype), value);
    };
    const Updated updated = spec.update({element, carry, stored});
    for (uint32_t r = 0; r < updated.results.size(); ++r) {
      StoreResult(b, r, updated.index, updated.results[r], updated.mask);
    }
    for (size_t k = 0; k < carry.size(); ++k) b.Store(scratch[k], Sym{}, updated.carry[k]);
    for (size_t d = 0; d < index.size(); ++d) b.EndFor();
  }

  void Pointwise(loop::Builder& b, const Index& index) {
    ReferenceElement element(call_, b, index);
    const Results results = call_.node().def->lower(element);
    for (uint32_t r = 0; r < results.size(); ++r) StoreResult(b, r, index, results[r]);
  }

  void View(loop::Builder& b, uint32_t r, const Index& index) {
    const Index at = call_.node().def->view(call_, r, index);
    StoreResult(b, r, index, b.Load(call_.value(0), FlatIndex(call_.syms(), at, call_.type(0).strides)));
  }

  // One loop over all reduced dims; its axis is taken apart into their indices.
  void Reduction(loop::Builder& b, const Index& index) {
    SymContext& syms = call_.syms();
    const ReduceSpec spec = call_.node().def->reduce(call_);
    const TensorType& self = call_.type(0);
    std::vector<Sym> reduced;
    for (int64_t d : spec.dims) reduced.push_back(self.sizes[d]);
    const Sym count = Numel(syms, reduced);
    const Sym axis = b.BeginReduce(loop::AxisKind::kSerial, count, 1, 1, spec.init(b));
    const Index inner = ReshapeIndex(syms, std::span(&axis, 1), std::span(&count, 1), reduced);
    Index at;
    size_t next_kept = 0, next_reduced = 0;
    for (size_t d = 0; d < self.sizes.size(); ++d) {
      const bool is_reduced = next_reduced < spec.dims.size() && spec.dims[next_reduced] == static_cast<int64_t>(d);
      at.push_back(is_reduced ? inner[next_reduced++] : index[next_kept++]);
      if (is_reduced && spec.keepdim) ++next_kept;
    }
    const loop::ValueId element = b.Load(call_.value(0), FlatIndex(syms, at, self.strides));
    const std::vector<loop::ValueId> total = b.EndReduce(spec.lift(b, b.Cast(spec.accumulate, element)), spec.combine);
    const std::vector<loop::ValueId> results = spec.finish(b, total, count);
    for (uint32_t r = 0; r < results.size(); ++r) StoreResult(b, r, index, results[r]);
  }

  Call call_;
  loop::Kernel kernel_;
};

}  // namespace

absl::StatusOr<std::vector<HostValue>> EvalRecord(const NodeRun& run) {
  const Call original(run.graph(), run.node());
  if (!HasMeaning(original) || run.node().def->decompose != nullptr) {
    return absl::UnimplementedError(absl::StrCat(run.graph().op_name(run.node()).name, " has no reference meaning"));
  }
  const absl::StatusOr<LoneNode> lone = LoneNodeMaker(run).Make();
  if (!lone.ok()) return lone.status();
  absl::StatusOr<loop::Kernel> kernel = ReferenceKernel(*lone->graph).Write();
  if (!kernel.ok()) return kernel.status();
  if (absl::Status s = loop::Verify(*kernel); !s.ok()) return absl::InternalError(s.message());

  std::vector<loop::BufferArg> buffers;
  for (ValueId v : lone->operands) {
    const HostArray& array = run.value(v);
    buffers.push_back({const_cast<char*>(array.data.data()),  // read only, by the buffer's access
                       static_cast<int64_t>(array.data.size()) / ByteSize(array.dtype)});
  }
  std::vector<HostArray> results(run.node().num_results);
  for (uint32_t r = 0; r < results.size(); ++r) {
    const TensorType& type = *run.graph().type(run.node().first_result + r);
    absl::StatusOr<std::vector<int64_t>> sizes = run.Sizes(type);
    if (!sizes.ok()) return sizes.status();
    int64_t elements = 1;
    for (int64_t size : *sizes) elements *= size;
    results[r] = {type.dtype, *std::move(sizes),
                  std::string(static_cast<size_t>(elements * ByteSize(type.dtype)), '\0')};
    buffers.push_back({results[r].data.data(), elements});
  }
  const absl::StatusOr<loop::RunStats> stats = loop::Interpret(*kernel, buffers, {});
  if (!stats.ok()) return stats.status();
  if (stats->error != 0) {
    return absl::InvalidArgumentError(absl::StrCat(run.graph().op_name(run.node()).name, ": index out of range"));
  }
  return std::vector<HostValue>(results.begin(), results.end());
}

}  // namespace kiln
