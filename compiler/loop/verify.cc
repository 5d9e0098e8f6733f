#include "compiler/loop/verify.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/loop/mutate.h"
#include "compiler/loop/scalar.h"
#include "compiler/loop/text.h"
#include "compiler/loop/typing.h"

#define KILN_RETURN_IF_ERROR(expression) \
  if (absl::Status status_ = (expression); !status_.ok()) return status_

namespace kiln::loop {
namespace {

template <typename... Parts>
absl::Status Broken(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

std::string Describe(const Stmt& stmt) {
  if (const Let* let = std::get_if<Let>(&stmt.node)) return absl::StrCat("v", let->result);
  if (const Store* store = std::get_if<Store>(&stmt.node)) return absl::StrCat("store to b", store->buffer);
  if (const Prefetch* prefetch = std::get_if<Prefetch>(&stmt.node))
    return absl::StrCat("prefetch of b", prefetch->buffer);
  if (const Axis* axis = AxisOf(stmt)) return absl::StrCat("axis i", axis->id);
  return "barrier";
}

class Verifier {
 public:
  explicit Verifier(const Kernel& kernel) : kernel_(kernel), values_(kernel.num_values), axes_(kernel.num_axes) {}

  absl::Status Run() {
    KILN_RETURN_IF_ERROR(CheckBuffers());
    const For* outer = kernel_.body.size() == 1 ? std::get_if<For>(&kernel_.body[0].node) : nullptr;
    if (outer == nullptr || outer->axis.kind != AxisKind::kParallel) return Broken("the body is not one parallel axis");
    return CheckBlock(kernel_.body);
  }

 private:
  struct Value {
    std::optional<DType> type;  // set once defined
    bool visible = false;
    bool checked_index = false;
  };

  Value* Find(ValueId value) {
    const uint32_t slot = value - kernel_.first_value;
    return value >= kernel_.first_value && slot < values_.size() ? &values_[slot] : nullptr;
  }

  std::optional<DType> TypeOf(ValueId value) {
    const Value* found = Find(value);
    return found != nullptr && found->visible ? found->type : std::nullopt;
  }

  absl::Status Define(ValueId value, DType type) {
    Value* found = Find(value);
    if (found == nullptr) return Broken("v", value, " is not a number of this kernel");
    if (found->type) return Broken("v", value, " is defined twice");
    *found = {.type = type, .visible = true, .checked_index = false};
    visible_.push_back(value);
    return absl::OkStatus();
  }

  // Hides what became visible since visible_ had `size` entries.
  void HideBehind(size_t size) {
    for (size_t i = size; i < visible_.size(); ++i) Find(visible_[i])->visible = false;
    visible_.resize(size);
  }

  absl::Status CheckBuffers() {
    if (kernel_.buffers.size() > kMaxKernelBuffers) return Broken("more than ", kMaxKernelBuffers, " buffers");
    for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
      const Buffer& buffer = kernel_.buffers[i];
      if (!IsLoopType(buffer.dtype)) return Broken("buffer b", i, " is complex");
      KILN_RETURN_IF_ERROR(CheckSizesOnly(buffer.size, absl::StrCat("size of buffer b", i)));
      const std::optional<int64_t> size = kernel_.syms->AsConst(buffer.size);
      if (buffer.space != Space::kGlobal && (!size || *size < 0 || *size > kMaxScratchElements)) {
        return Broken("buffer b", i, " is scratch: its size is a constant up to ", kMaxScratchElements);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckSizesOnly(Sym sym, const std::string& what) {
    for (Var var : kernel_.syms->Variables(sym)) {
      if (var.kind != VarKind::kSize || var.index >= kernel_.num_sizes) {
        return Broken(what, ": ", kernel_.syms->ToString(sym), " names more than sizes of the kernel");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckSym(Sym sym, bool may_name_values) {
    for (Var var : kernel_.syms->Variables(sym)) {
      bool good = false;
      switch (var.kind) {
        case VarKind::kSize:
          good = var.index < kernel_.num_sizes;
          break;
        case VarKind::kAxis: {
          const uint32_t slot = var.index - kernel_.first_axis;
          good = var.index >= kernel_.first_axis && slot < axes_.size() && axes_[slot] == AxisState::kOpen;
          break;
        }
        case VarKind::kValue: {
          const Value* value = Find(var.index);
          good = may_name_values && value != nullptr && value->visible && value->checked_index;
          break;
        }
      }
      if (!good) return Broken("expression ", kernel_.syms->ToString(sym), " names what it may not name here");
    }
    return absl::OkStatus();
  }

  absl::Status CheckBlock(const Block& block) {
    for (const Stmt& stmt : block) {
      absl::Status status = std::visit([this](const auto& node) { return Check(node); }, stmt.node);
      // Named once, by the innermost statement.
      if (!status.ok() && !named_) {
        named_ = true;
        return Broken(Describe(stmt), ": ", std::string(status.message()));
      }
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Check(const Let& let) {
    KILN_RETURN_IF_ERROR(CheckLet(let, kernel_.buffers, [this](ValueId value) { return TypeOf(value); }));
    if (in_combine_ && UsesIndex(let.op)) return Broken("a combine block computes from its operands alone");
    if (let.op == Op::kCheckIndex) {
      KILN_RETURN_IF_ERROR(CheckSizesOnly(let.index, "bound of the index"));
    } else if (UsesIndex(let.op)) {
      KILN_RETURN_IF_ERROR(CheckSym(let.index, true));
    } else if (let.index != Sym{}) {
      return Broken("has an index expression but reads none");
    }
    KILN_RETURN_IF_ERROR(Define(let.result, let.type));
    if (let.op == Op::kCheckIndex) {
      Find(let.result)->checked_index = true;
      std::optional<Sym> extent = kernel_.syms->Extent({VarKind::kValue, let.result});
      if (extent && *extent != let.index) return Broken("the bound differs from the declared one");
    }
    return absl::OkStatus();
  }

  absl::Status Check(const Store& store) {
    if (in_combine_) return Broken("a combine block holds Lets only");
    KILN_RETURN_IF_ERROR(CheckStore(store, kernel_.buffers, [this](ValueId value) { return TypeOf(value); }));
    return CheckSym(store.index, true);
  }

  absl::Status Check(const Prefetch& prefetch) {
    if (in_combine_) return Broken("a combine block holds Lets only");
    if (prefetch.buffer >= kernel_.buffers.size()) return Broken("there is no buffer b", prefetch.buffer);
    return CheckSym(prefetch.index, true);
  }

  absl::Status Check(const Barrier&) {
    if (in_combine_) return Broken("a combine block holds Lets only");
    return in_vector_ ? Broken("inside an axis that threads go apart in") : absl::OkStatus();
  }

  absl::Status CheckWidth(const Axis& axis) {
    const auto is_power = [](uint32_t n) { return n != 0 && (n & (n - 1)) == 0; };
    const bool vector = axis.kind == AxisKind::kVector, thread = axis.kind == AxisKind::kThread;
    const uint32_t threads = thread && axis.lanes != 0 ? axis.width / axis.lanes : 0;
    const bool whole_warps = threads != 0 && threads % kWarp == 0 && threads * axis.lanes == axis.width;
    if (!is_power(axis.width) && !whole_warps) return Broken("width ", axis.width);
    if (axis.width != 1 && !vector && !thread) return Broken("width ", axis.width);
    if (vector && axis.width > kMaxVectorWidth) return Broken("width ", axis.width);
    if (!is_power(axis.lanes) || (axis.lanes != 1 && !thread)) return Broken(axis.lanes, " lanes");
    if (axis.lanes > kMaxThreadLanes || axis.lanes > axis.width) return Broken(axis.lanes, " lanes");
    if (!vector && !thread) return absl::OkStatus();
    if (threads > kMaxThreads) return Broken(threads, " threads");
    if (threads_.value_or(threads) != threads) return Broken("threads differ within the kernel");
    threads_ = threads;
    return absl::OkStatus();
  }

  absl::Status Open(const Axis& axis) {
    if (in_combine_) return Broken("a combine block holds Lets only");
    const bool vector = axis.kind == AxisKind::kVector || axis.kind == AxisKind::kThread;
    if ((axis.kind == AxisKind::kParallel) != (depth_ == 0)) return Broken("the outermost axis alone is parallel");
    if (depth_ >= kMaxNesting) return Broken("more than ", kMaxNesting, " axes inside each other");
    if (in_vector_ && axis.kind != AxisKind::kSerial) return Broken("axes inside a vector axis are serial");
    KILN_RETURN_IF_ERROR(CheckWidth(axis));
    if (axis.kind != AxisKind::kParallel && axis.grain != Sym{}) return Broken("only a parallel axis has a grain");
    KILN_RETURN_IF_ERROR(CheckSizesOnly(axis.grain, "grain"));
    KILN_RETURN_IF_ERROR(CheckSym(axis.extent, false));
    const uint32_t slot = axis.id - kernel_.first_axis;
    if (axis.id < kernel_.first_axis || slot >= axes_.size()) return Broken("not a number of this kernel");
    if (axes_[slot] != AxisState::kNew) return Broken("declared twice");
    std::optional<Sym> extent = kernel_.syms->Extent({VarKind::kAxis, axis.id});
    if (extent && *extent != axis.extent) return Broken("the extent differs from the declared one");
    axes_[slot] = AxisState::kOpen;
    ++depth_;
    in_vector_ = in_vector_ || vector;
    return absl::OkStatus();
  }

  void Close(const Axis& axis) {
    axes_[axis.id - kernel_.first_axis] = AxisState::kClosed;
    --depth_;
    if (axis.kind == AxisKind::kVector || axis.kind == AxisKind::kThread) in_vector_ = false;  // they do not nest
  }

  absl::Status Check(const For& loop) {
    KILN_RETURN_IF_ERROR(Open(loop.axis));
    const size_t visible = visible_.size();
    KILN_RETURN_IF_ERROR(CheckBlock(loop.body));
    HideBehind(visible);
    Close(loop.axis);
    return absl::OkStatus();
  }

  absl::Status CheckTuple(const Reduce& reduce, const std::vector<ValueId>& values, const char* what) {
    if (values.size() != reduce.types.size()) return Broken(what, " has another length than the types");
    for (size_t i = 0; i < values.size(); ++i) {
      if (TypeOf(values[i]) != reduce.types[i]) {
        return Broken(what, " v", values[i], " is not visible as a ", std::string(Name(reduce.types[i])));
      }
    }
    return absl::OkStatus();
  }

  absl::Status DefineTuple(const Reduce& reduce, const std::vector<ValueId>& values, const char* what) {
    if (values.size() != reduce.types.size()) return Broken(what, " has another length than the types");
    for (size_t i = 0; i < values.size(); ++i) KILN_RETURN_IF_ERROR(Define(values[i], reduce.types[i]));
    return absl::OkStatus();
  }

  absl::Status Check(const Reduce& reduce) {
    if (reduce.types.empty()) return Broken("a reduction of nothing");
    for (DType type : reduce.types) {
      if (!IsLoopType(type)) return Broken("a reduction to complex values");
    }
    if (reduce.axis.kind == AxisKind::kParallel) return Broken("no reduction runs over a parallel axis");
    if (reduce.accumulators < 1 || reduce.accumulators > kMaxAccumulators) {
      return Broken(reduce.accumulators, " accumulators");
    }
    if ((reduce.axis.width & (reduce.axis.width - 1)) != 0) return Broken("width ", reduce.axis.width);
    KILN_RETURN_IF_ERROR(CheckTuple(reduce, reduce.init, "init"));
    KILN_RETURN_IF_ERROR(Open(reduce.axis));
    const size_t visible = visible_.size();
    KILN_RETURN_IF_ERROR(CheckBlock(reduce.body));
    KILN_RETURN_IF_ERROR(CheckTuple(reduce, reduce.yields, "yield"));
    HideBehind(visible);
    Close(reduce.axis);
    KILN_RETURN_IF_ERROR(DefineTuple(reduce, reduce.a, "a"));
    KILN_RETURN_IF_ERROR(DefineTuple(reduce, reduce.b, "b"));
    in_combine_ = true;
    KILN_RETURN_IF_ERROR(CheckBlock(reduce.combine));
    in_combine_ = false;
    KILN_RETURN_IF_ERROR(CheckTuple(reduce, reduce.combined, "combine's yield"));
    HideBehind(visible);
    return DefineTuple(reduce, reduce.results, "results");
  }

  enum class AxisState : uint8_t { kNew, kOpen, kClosed };

  const Kernel& kernel_;
  std::vector<Value> values_;        // by ValueId - first_value
  std::vector<AxisState> axes_;      // by AxisId - first_axis
  std::vector<ValueId> visible_;     // in order of definition
  std::optional<uint32_t> threads_;  // of the kThread axes so far; 0: there are kVector axes
  int depth_ = 0;
  bool in_vector_ = false;
  bool in_combine_ = false;
  bool named_ = false;
};

}  // namespace

absl::Status Verify(const Kernel& kernel) {
  if (kernel.num_values > kMaxKernelValues) return Broken("more than ", kMaxKernelValues, " values");
  if (kernel.num_axes > kMaxKernelAxes) return Broken("more than ", kMaxKernelAxes, " axes");
  if (kernel.num_sizes > kMaxKernelSizes) return Broken("more than ", kMaxKernelSizes, " sizes");
  return Verifier(kernel).Run();
}

}  // namespace kiln::loop
