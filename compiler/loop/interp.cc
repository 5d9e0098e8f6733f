#include "compiler/loop/interp.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/loop/mutate.h"
#include "compiler/loop/scalar.h"
#include "compiler/loop/sym_program.h"

#define KILN_RETURN_IF_ERROR(expression) \
  if (absl::Status status_ = (expression); !status_.ok()) return status_

namespace kiln::loop {
namespace {

// A statement with its expressions compiled.
struct Node {
  const Stmt* stmt = nullptr;
  SymProgram index;                  // or extent
  int64_t check = 0;                 // kCheckIndex: its number
  DType arg_type = DType::kFloat32;  // of the operation's last operand
  std::vector<Node> body, combine;
};

// Who accessed an element last, of the threads of all blocks, and between which barriers of the block.
struct Access {
  static constexpr int64_t kNobody = -1, kSeveral = -2;
  int64_t writer = kNobody, reader = kNobody;
  int64_t written_at = -1, read_at = -1;
};

struct Memory {
  uint8_t* data = nullptr;
  int64_t size = 0;  // elements that may be addressed
  int element = 1;   // bytes
  DType dtype = DType::kFloat32;
  uint64_t reads = 0, writes = 0;
  std::vector<uint8_t> scratch;
  std::vector<Access> accesses;  // by element; kernels with threads only
};

class Machine {
 public:
  Machine(const Kernel& kernel, const RunOptions& options)
      : kernel_(kernel),
        options_(options),
        values_(kernel.num_values),
        types_(kernel.num_values, DType::kFloat32),
        variables_(size_t{kernel.num_sizes} + kernel.num_axes + kernel.num_values) {}

  absl::StatusOr<RunStats> Run(std::span<const BufferArg> args, std::span<const int64_t> sizes) {
    KILN_RETURN_IF_ERROR(BindSizes(sizes));
    KILN_RETURN_IF_ERROR(BindBuffers(args));
    std::vector<Node> nodes = Compile(kernel_.body);
    KILN_RETURN_IF_ERROR(RunParallel(nodes.at(0)));
    RunStats stats{.operations = operations_, .reads = {}, .writes = {}, .error = error_};
    for (const Memory& memory : memories_) {
      stats.reads.push_back(memory.reads);
      stats.writes.push_back(memory.writes);
    }
    return stats;
  }

 private:
  // Places in variables_: sizes, then axes, then values.
  uint32_t Slot(Var var) const {
    switch (var.kind) {
      case VarKind::kSize:
        return var.index;
      case VarKind::kAxis:
        return AxisSlot(var.index);
      case VarKind::kValue:
        return ValueSlot(var.index);
    }
    return 0;
  }
  uint32_t AxisSlot(AxisId axis) const { return kernel_.num_sizes + axis - kernel_.first_axis; }
  uint32_t ValueSlot(ValueId value) const { return kernel_.num_sizes + kernel_.num_axes + value - kernel_.first_value; }
  uint64_t& Value(ValueId value) { return values_[value - kernel_.first_value]; }
  DType& Type(ValueId value) { return types_[value - kernel_.first_value]; }

  SymProgram CompileSym(Sym s) {
    return SymProgram(*kernel_.syms, s, [this](Var var) { return Slot(var); });
  }

  std::vector<Node> Compile(const Block& block) {
    std::vector<Node> nodes(block.size());
    for (size_t i = 0; i < block.size(); ++i) {
      Node& node = nodes[i];
      node.stmt = &block[i];
      if (const Let* let = std::get_if<Let>(&block[i].node)) {
        Type(let->result) = let->type;
        node.arg_type = let->args.empty() ? let->type : Type(let->args.back());
        if (let->op == Op::kCheckIndex) node.check = next_check_++;
        if (UsesIndex(let->op)) node.index = CompileSym(let->index);
      } else if (const Store* store = std::get_if<Store>(&block[i].node)) {
        node.index = CompileSym(store->index);
      } else if (const Axis* axis = AxisOf(block[i])) {
        node.index = CompileSym(axis->extent);
        has_threads_ = has_threads_ || (axis->kind == AxisKind::kThread && axis->width > axis->lanes);
      }
      if (const For* loop = std::get_if<For>(&block[i].node)) node.body = Compile(loop->body);
      if (const Reduce* reduce = std::get_if<Reduce>(&block[i].node)) CompileReduce(*reduce, node);
    }
    return nodes;
  }

  void CompileReduce(const Reduce& reduce, Node& node) {
    for (const auto* list : {&reduce.results, &reduce.a, &reduce.b}) {
      for (size_t k = 0; k < list->size(); ++k) Type((*list)[k]) = reduce.types[k];
    }
    node.body = Compile(reduce.body);
    node.combine = Compile(reduce.combine);
  }

  absl::Status BindSizes(std::span<const int64_t> sizes) {
    if (sizes.size() != kernel_.num_sizes) {
      return absl::InvalidArgumentError(absl::StrCat("kernel takes ", kernel_.num_sizes, " sizes, got ", sizes.size()));
    }
    for (uint32_t i = 0; i < sizes.size(); ++i) {
      const SymRange range = kernel_.syms->Range({VarKind::kSize, i});
      if (sizes[i] < range.min || sizes[i] > range.max) {
        return absl::InvalidArgumentError(absl::StrCat("size s", i, " = ", sizes[i], " is out of its range"));
      }
      variables_[i] = sizes[i];
    }
    return absl::OkStatus();
  }

  absl::Status BindBuffers(std::span<const BufferArg> args) {
    size_t next = 0;
    for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
      const Buffer& buffer = kernel_.buffers[i];
      Memory memory{.element = ByteSize(buffer.dtype), .dtype = buffer.dtype, .scratch = {}, .accesses = {}};
      if (!CompileSym(buffer.size).Eval(variables_, memory.size)) {
        return absl::InvalidArgumentError(absl::StrCat("size of buffer b", i, " overflows"));
      }
      if (buffer.space == Space::kGlobal) {
        if (next == args.size()) return absl::InvalidArgumentError("too few buffers given");
        memory.data = static_cast<uint8_t*>(args[next].data);
        memory.size = std::min(memory.size, args[next++].elements);
      } else {
        memory.scratch.resize(std::max<int64_t>(memory.size, 0) * memory.element);
        memory.data = memory.scratch.data();
      }
      memories_.push_back(std::move(memory));
    }
    if (next != args.size()) return absl::InvalidArgumentError("too many buffers given");
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> Extent(Node& node) {
    int64_t extent = 0;
    if (!node.index.Eval(variables_, extent)) return absl::InvalidArgumentError("an axis' extent overflows");
    return extent;
  }

  absl::Status RunParallel(Node& node) {
    const For& loop = std::get<For>(node.stmt->node);
    absl::StatusOr<int64_t> extent = Extent(node);
    if (!extent.ok()) return extent.status();
    const int64_t end = options_.end < 0 ? *extent : options_.end;
    if (options_.begin < 0 || options_.begin > end || end > std::max<int64_t>(*extent, 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("range [", options_.begin, ", ", end, ") of a parallel axis of ", *extent));
    }
    for (Memory& memory : memories_) {
      if (has_threads_) memory.accesses.resize(std::max<int64_t>(memory.size, 0));
    }
    for (int64_t i = options_.begin; i < end; ++i) {
      for (Memory& memory : memories_) {
        std::fill(memory.scratch.begin(), memory.scratch.end(), 0xff);
        if (!memory.scratch.empty()) std::fill(memory.accesses.begin(), memory.accesses.end(), Access());
      }
      block_ = i;
      variables_[AxisSlot(loop.axis.id)] = i;
      KILN_RETURN_IF_ERROR(RunBlock(node.body));
    }
    return absl::OkStatus();
  }

  absl::Status Count(uint64_t n) {
    operations_ += n;
    if (operations_ <= options_.max_operations) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("more than ", options_.max_operations, " operations"));
  }

  absl::Status RunBlock(std::vector<Node>& nodes) {
    KILN_RETURN_IF_ERROR(Count(nodes.size() + 1));
    for (Node& node : nodes) {
      KILN_RETURN_IF_ERROR(std::visit([&](const auto& stmt) { return RunStmt(stmt, node); }, node.stmt->node));
    }
    return absl::OkStatus();
  }

  absl::Status RunStmt(const Prefetch&, Node&) { return absl::OkStatus(); }

  absl::Status RunStmt(const Barrier&, Node&) {
    ++barriers_;
    return absl::OkStatus();
  }

  absl::Status RunIteration(const Axis& axis, int64_t i, std::vector<Node>& body) {
    variables_[AxisSlot(axis.id)] = i;
    if (axis.kind != AxisKind::kThread) return RunBlock(body);
    thread_ = i % axis.width / axis.lanes;
    absl::Status status = RunBlock(body);
    thread_ = kAllThreads;
    return status;
  }

  absl::Status RunStmt(const For& loop, Node& node) {
    absl::StatusOr<int64_t> extent = Extent(node);
    if (!extent.ok()) return extent.status();
    for (int64_t i = 0; i < *extent; ++i) KILN_RETURN_IF_ERROR(RunIteration(loop.axis, i, node.body));
    return absl::OkStatus();
  }

  // Threads that meet at an element, one of them to store: another block's at any time, or one of the same block
  // without a barrier in between.
  absl::Status NoteAccess(BufferId buffer, int64_t index, bool store) {
    if (!has_threads_) return absl::OkStatus();
    const int64_t block = block_ * kMaxThreads;
    // What all threads compute one of them stores.
    const int64_t thread = block + (thread_ != kAllThreads ? thread_ : 0);
    Access& access = memories_[buffer].accesses[index];
    const auto meets = [&](int64_t other, int64_t at) {
      if (other == Access::kNobody) return false;
      if (other == Access::kSeveral) return at == barriers_;
      return other / kMaxThreads != block_ || (at == barriers_ && (other != thread || (!store && IsShared(thread_))));
    };
    if (meets(access.writer, access.written_at) || (store && meets(access.reader, access.read_at))) {
      return absl::FailedPreconditionError(
          absl::StrCat("threads race for b", buffer, "[", index, "] in block ", block_));
    }
    if (store) {
      access.writer = thread;
      access.written_at = barriers_;
      return absl::OkStatus();
    }
    const bool again = access.read_at == barriers_ && access.reader != Access::kNobody;
    const bool several = IsShared(thread_) || (again && access.reader != thread);
    access.reader = several ? Access::kSeveral : thread;
    access.read_at = barriers_;
    return absl::OkStatus();
  }
  static bool IsShared(int64_t thread) { return thread == kAllThreads; }

  absl::Status RunStmt(const Let& let, Node& node) {
    uint64_t& result = Value(let.result);
    int64_t index = 0;
    switch (let.op) {
      case Op::kConst:
        result = let.imm;
        return absl::OkStatus();
      case Op::kIndex:
        if (!node.index.Eval(variables_, index)) return absl::OutOfRangeError("an index overflows");
        result = static_cast<uint64_t>(index);
        return absl::OkStatus();
      case Op::kLoad:
        return RunLoad(let, node, result);
      case Op::kCheckIndex:
        return RunCheck(let, node, result);
      case Op::kCast:
        result = CastBits(node.arg_type, let.type, Value(let.args[0]));
        return absl::OkStatus();
      case Op::kBitcast:
        result = Canonical(let.type, Value(let.args[0]));
        return absl::OkStatus();
      default:
        break;
    }
    uint64_t args[3] = {};
    for (size_t i = 0; i < let.args.size(); ++i) args[i] = Value(let.args[i]);
    result = EvalOp(let.op, node.arg_type, args);
    return absl::OkStatus();
  }

  absl::Status RunCheck(const Let& let, Node& node, uint64_t& result) {
    int64_t bound = 0;
    if (!node.index.Eval(variables_, bound)) return absl::InvalidArgumentError("the bound of an index overflows");
    int64_t index = static_cast<int64_t>(Value(let.args[0]));
    if (index < 0 || index >= bound) {
      if (error_ == 0) error_ = 1 + node.check;
      index = 0;
    }
    result = static_cast<uint64_t>(index);
    variables_[ValueSlot(let.result)] = index;
    return absl::OkStatus();
  }

  // The element, checked to exist.
  absl::StatusOr<uint8_t*> Address(BufferId buffer, Node& node, bool store) {
    int64_t index = 0;
    if (!node.index.Eval(variables_, index)) return absl::OutOfRangeError("an index overflows");
    Memory& memory = memories_[buffer];
    if (index < 0 || index >= memory.size) {
      return absl::OutOfRangeError(absl::StrCat(store ? "store to" : "load of", " b", buffer, "[", index,
                                                "], which has ", memory.size, " elements"));
    }
    KILN_RETURN_IF_ERROR(NoteAccess(buffer, index, store));
    return memory.data + index * memory.element;
  }

  absl::Status RunLoad(const Let& let, Node& node, uint64_t& result) {
    if (let.mask != kNone && Value(let.mask) == 0) {
      result = Value(let.other);
      return absl::OkStatus();
    }
    absl::StatusOr<uint8_t*> address = Address(let.buffer, node, /*store=*/false);
    if (!address.ok()) return address.status();
    Memory& memory = memories_[let.buffer];
    ++memory.reads;
    uint64_t bits = 0;
    std::memcpy(&bits, *address, memory.element);  // little-endian
    result = memory.dtype == DType::kBool ? bits != 0 : Canonical(memory.dtype, bits);
    return absl::OkStatus();
  }

  absl::Status RunStmt(const Store& store, Node& node) {
    if (store.mask != kNone && Value(store.mask) == 0) return absl::OkStatus();
    absl::StatusOr<uint8_t*> address = Address(store.buffer, node, /*store=*/true);
    if (!address.ok()) return address.status();
    Memory& memory = memories_[store.buffer];
    ++memory.writes;
    std::memcpy(*address, &Value(store.value), memory.element);
    return absl::OkStatus();
  }

  // into = combine(into, from), for tuples of accumulators.
  absl::Status Combine(const Reduce& reduce, Node& node, uint64_t* into, const uint64_t* from) {
    for (size_t k = 0; k < reduce.types.size(); ++k) {
      Value(reduce.a[k]) = into[k];
      Value(reduce.b[k]) = from[k];
    }
    KILN_RETURN_IF_ERROR(RunBlock(node.combine));
    for (size_t k = 0; k < reduce.types.size(); ++k) into[k] = Value(reduce.combined[k]);
    return absl::OkStatus();
  }

  absl::Status RunStmt(const Reduce& reduce, Node& node) {
    absl::StatusOr<int64_t> extent = Extent(node);
    if (!extent.ok()) return extent.status();
    const size_t tuple = reduce.types.size(), width = reduce.axis.width, lanes = width * reduce.accumulators;
    std::vector<uint64_t> accumulators(lanes * tuple), yielded(tuple);
    for (size_t i = 0; i < accumulators.size(); ++i) accumulators[i] = Value(reduce.init[i % tuple]);
    auto at = [&](size_t lane) { return &accumulators[lane * tuple]; };
    for (int64_t r = 0; r < *extent; ++r) {
      KILN_RETURN_IF_ERROR(RunIteration(reduce.axis, r, node.body));
      for (size_t k = 0; k < tuple; ++k) yielded[k] = Value(reduce.yields[k]);
      KILN_RETURN_IF_ERROR(Combine(reduce, node, at(r % lanes), yielded.data()));
    }
    for (size_t u = 1; u < reduce.accumulators; ++u) {
      for (size_t j = 0; j < width; ++j) KILN_RETURN_IF_ERROR(Combine(reduce, node, at(j), at(j + u * width)));
    }
    // `count` tuples, `step` apart, from `first` on.
    const auto halve = [&](size_t first, size_t count, size_t step) -> absl::Status {
      for (size_t half = count / 2; half >= 1; half /= 2) {
        for (size_t j = 0; j < half; ++j)
          KILN_RETURN_IF_ERROR(Combine(reduce, node, at(first + j * step), at(first + (j + half) * step)));
      }
      return absl::OkStatus();
    };
    if (reduce.axis.kind == AxisKind::kThread) {
      const size_t own = reduce.axis.lanes, warp = std::min<size_t>(width, own * kWarp);
      for (size_t first = 0; first < width; first += own) KILN_RETURN_IF_ERROR(halve(first, own, 1));
      for (size_t first = 0; first < width; first += warp) KILN_RETURN_IF_ERROR(halve(first, warp / own, own));
      KILN_RETURN_IF_ERROR(halve(0, width / warp, warp));
    } else {
      KILN_RETURN_IF_ERROR(halve(0, width, 1));
    }
    for (size_t k = 0; k < tuple; ++k) Value(reduce.results[k]) = at(0)[k];
    return absl::OkStatus();
  }

  const Kernel& kernel_;
  const RunOptions& options_;
  std::vector<uint64_t> values_;    // by ValueId - first_value, in the form of scalar.h
  std::vector<DType> types_;        // likewise
  std::vector<int64_t> variables_;  // see Slot
  std::vector<Memory> memories_;    // by BufferId
  static constexpr int64_t kAllThreads = -1;
  bool has_threads_ = false;
  int64_t block_ = 0;  // the parallel axis
  int64_t thread_ = kAllThreads;
  int64_t barriers_ = 0;
  uint64_t operations_ = 0;
  int64_t next_check_ = 0;
  int64_t error_ = 0;
};

}  // namespace

absl::StatusOr<RunStats> Interpret(const Kernel& kernel, std::span<const BufferArg> args,
                                   std::span<const int64_t> sizes, const RunOptions& options) {
  return Machine(kernel, options).Run(args, sizes);
}

}  // namespace kiln::loop
