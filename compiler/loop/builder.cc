#include "compiler/loop/builder.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/loop/mutate.h"
#include "compiler/loop/scalar.h"
#include "compiler/loop/typing.h"

namespace kiln::loop {
// A block being written. All but the first own the statement that they will become.
struct Builder::Frame {
  Stmt stmt;
  Block body;
};

struct Builder::Types {
  std::vector<std::optional<DType>> of;  // by ValueId - Kernel::first_value
};

Builder::Builder(Kernel& kernel, Block& block) : kernel_(kernel), block_(&block), types_(std::make_shared<Types>()) {
  frames_.emplace_back();
  auto learn = [this](const Stmt& stmt) { LearnResults(stmt); };
  Walk(std::as_const(kernel.body), learn);
  Walk(std::as_const(block), learn);
}

Builder::Builder(const Builder& other, Block& block)
    : kernel_(other.kernel_), block_(&block), status_(other.status_), types_(other.types_) {
  frames_.emplace_back();
}

Builder::~Builder() = default;

Block& Builder::block() { return frames_.size() == 1 ? *block_ : frames_.back().body; }

void Builder::Fail(const absl::Status& status) {
  if (!status_.ok() || status.ok()) return;
  status_ = absl::InternalError(absl::StrCat("loop builder: ", std::string(status.message())));
}

template <typename... Parts>
bool Builder::Check(bool condition, const Parts&... parts) {
  if (!condition) Fail(absl::InternalError(absl::StrCat(parts...)));
  return status_.ok();
}

std::optional<DType> Builder::KnownType(ValueId value) const {
  const uint32_t slot = value - kernel_.first_value;
  if (value < kernel_.first_value || slot >= types_->of.size()) return std::nullopt;
  return types_->of[slot];
}

DType Builder::TypeOf(ValueId value) const { return KnownType(value).value_or(DType::kFloat32); }

void Builder::Learn(ValueId value, DType type) {
  if (value < kernel_.first_value || value - kernel_.first_value >= kernel_.num_values) return;
  std::vector<std::optional<DType>>& types = types_->of;
  if (types.size() < kernel_.num_values) types.resize(kernel_.num_values);
  types[value - kernel_.first_value] = type;
}

void Builder::LearnResults(const Stmt& stmt) {
  if (const Let* let = std::get_if<Let>(&stmt.node)) Learn(let->result, let->type);
  const Reduce* reduce = std::get_if<Reduce>(&stmt.node);
  if (reduce == nullptr) return;
  for (const auto* list : {&reduce->results, &reduce->a, &reduce->b}) {
    for (size_t i = 0; i < list->size() && i < reduce->types.size(); ++i) Learn((*list)[i], reduce->types[i]);
  }
}

ValueId Builder::NewValue(DType type) {
  const ValueId value = kernel_.first_value + kernel_.num_values++;
  types_->of.resize(std::max<size_t>(types_->of.size(), kernel_.num_values));
  types_->of.back() = type;
  return value;
}

ValueId Builder::Emit(Let let) {
  if (!status_.ok()) return kNone;
  Fail(CheckLet(let, kernel_.buffers, [this](ValueId value) { return KnownType(value); }));
  if (!status_.ok()) return kNone;
  const bool pure = IsPure(let, kernel_.buffers);
  if (pure) {
    if (std::optional<ValueId> shared = shared_.Find(let)) return *shared;
  }
  let.result = NewValue(let.type);
  if (pure) shared_.Add(let);
  const ValueId result = let.result;
  block().push_back({std::move(let), origin_});
  return result;
}

ValueId Builder::Const(DType type, double value) {
  if (IsFloat(type)) return ConstBits(type, FromDouble(type, value));
  return ConstBits(type, CastBits(DType::kFloat64, type, FromDouble(DType::kFloat64, value)));
}

ValueId Builder::ConstInt(DType type, int64_t value) {
  return ConstBits(type, CastBits(DType::kInt64, type, static_cast<uint64_t>(value)));
}

ValueId Builder::ConstBits(DType type, uint64_t bits) {
  return Emit({.type = type, .op = Op::kConst, .imm = IsLoopType(type) ? Canonical(type, bits) : 0});
}

ValueId Builder::Index(Sym index) { return Emit({.type = DType::kInt64, .op = Op::kIndex, .index = index}); }

ValueId Builder::Load(BufferId buffer, Sym index, ValueId mask, ValueId other) {
  if (!Check(buffer < kernel_.buffers.size(), "load of buffer b", buffer)) return kNone;
  const DType type = kernel_.buffers[buffer].dtype;
  if (mask != kNone && other == kNone) other = ConstBits(type, 0);
  return Emit({.type = type, .op = Op::kLoad, .index = index, .buffer = buffer, .mask = mask, .other = other});
}

ValueId Builder::Cast(DType type, ValueId value) {
  if (KnownType(value) == type) return value;
  return Emit({.type = type, .op = Op::kCast, .args = {value}});
}

ValueId Builder::Bitcast(DType type, ValueId value) {
  if (KnownType(value) == type) return value;
  return Emit({.type = type, .op = Op::kBitcast, .args = {value}});
}

ValueId Builder::Select(ValueId condition, ValueId if_true, ValueId if_false) {
  return Apply(Op::kSelect, condition, if_true, if_false);
}

ValueId Builder::Apply(Op op, std::span<const ValueId> args) {
  std::vector<DType> types;
  for (ValueId arg : args) {
    if (!Check(KnownType(arg).has_value(), "operand v", arg, " is not defined")) return kNone;
    types.push_back(TypeOf(arg));
  }
  absl::StatusOr<DType> type = InferType(op, types);
  if (!type.ok()) {
    Fail(type.status());
    return kNone;
  }
  return Emit({.type = *type, .op = op, .args = {args.begin(), args.end()}});
}

ValueId Builder::Apply(Op op, ValueId a, ValueId b) {
  const ValueId args[] = {a, b};
  return Apply(op, args);
}

ValueId Builder::Apply(Op op, ValueId a, ValueId b, ValueId c) {
  const ValueId args[] = {a, b, c};
  return Apply(op, args);
}

Sym Builder::IndexFromValue(ValueId value, Sym extent) {
  for (Var var : syms().Variables(extent)) {
    if (!Check(var.kind == VarKind::kSize, "the extent of a checked index names sizes only")) return {};
  }
  const ValueId checked = Emit({.type = DType::kInt64, .op = Op::kCheckIndex, .args = {value}, .index = extent});
  return checked == kNone ? Sym{} : syms().Value(checked, extent);
}

void Builder::Store(BufferId buffer, Sym index, ValueId value, ValueId mask, bool streaming) {
  if (!status_.ok()) return;
  loop::Store store{.buffer = buffer, .index = index, .value = value, .mask = mask, .streaming = streaming};
  Fail(CheckStore(store, kernel_.buffers, [this](ValueId v) { return KnownType(v); }));
  if (status_.ok()) block().push_back({store, origin_});
}

void Builder::Prefetch(BufferId buffer, Sym index) {
  if (status_.ok()) block().push_back({loop::Prefetch{.buffer = buffer, .index = index}, origin_});
}

void Builder::Append(Stmt stmt) {
  if (!status_.ok()) return;
  LearnResults(stmt);
  auto learn = [this](const Stmt& inner) { LearnResults(inner); };
  if (const For* loop = std::get_if<For>(&stmt.node)) Walk(loop->body, learn);
  if (const Reduce* reduce = std::get_if<Reduce>(&stmt.node)) {
    Walk(reduce->body, learn);
    Walk(reduce->combine, learn);
  }
  block().push_back(std::move(stmt));
}

void Builder::Open(Stmt stmt) {
  frames_.push_back({.stmt = std::move(stmt), .body = {}});
  shared_.Open();
}

Stmt Builder::Close() {
  Frame frame = std::move(frames_.back());
  frames_.pop_back();
  shared_.Close();
  if (For* loop = std::get_if<For>(&frame.stmt.node)) loop->body = std::move(frame.body);
  if (Reduce* reduce = std::get_if<Reduce>(&frame.stmt.node)) {
    // The first frame of a Reduce is its body, the second its combine block.
    (reduce->a.empty() ? reduce->body : reduce->combine) = std::move(frame.body);
  }
  return std::move(frame.stmt);
}

Axis Builder::NewAxis(AxisKind kind, Sym extent, uint32_t width, Sym grain, uint32_t lanes) {
  const uint32_t widest = kind == AxisKind::kThread ? kMaxThreads * lanes : kMaxVectorWidth;
  const bool whole_warps = kind == AxisKind::kThread && lanes != 0 && width % (lanes * kWarp) == 0;
  Check(width >= 1 && width <= widest && ((width & (width - 1)) == 0 || whole_warps), "an axis is ", width,
        " lanes wide");
  Check(kind == AxisKind::kVector || kind == AxisKind::kThread || width == 1, "only a vector axis has lanes");
  Check(frames_.size() <= kMaxNesting, "the nest is more than ", kMaxNesting, " deep");
  return {.id = kernel_.first_axis + kernel_.num_axes++,
          .extent = extent,
          .kind = kind,
          .width = width,
          .lanes = lanes,
          .grain = grain};
}

void Builder::Barrier() { block().push_back({loop::Barrier(), origin_}); }

Sym Builder::BeginFor(AxisKind kind, Sym extent, uint32_t width, Sym grain, uint32_t lanes) {
  Axis axis = NewAxis(kind, extent, width, grain, lanes);
  Open({For{.axis = axis, .body = {}}, origin_});
  return syms().Axis(axis.id, extent);
}

void Builder::EndFor() {
  if (!Check(frames_.size() > 1 && std::holds_alternative<For>(frames_.back().stmt.node), "EndFor without BeginFor")) {
    return;
  }
  Stmt stmt = Close();
  block().push_back(std::move(stmt));
}

Sym Builder::BeginReduce(AxisKind kind, Sym extent, uint32_t width, uint32_t accumulators,
                         std::span<const ValueId> init, uint32_t lanes) {
  Check(!init.empty(), "a reduction of nothing");
  Check(accumulators >= 1 && accumulators <= kMaxAccumulators, "a reduction with ", accumulators, " accumulators");
  Check(kind != AxisKind::kParallel, "no reduction runs over a parallel axis");
  Reduce reduce;
  reduce.axis = NewAxis(kind, extent, width, {}, lanes);
  reduce.accumulators = accumulators;
  for (ValueId value : init) {
    Check(KnownType(value).has_value(), "init v", value, " is not defined");
    reduce.init.push_back(value);
    reduce.types.push_back(TypeOf(value));
  }
  const AxisId axis = reduce.axis.id;
  Open({std::move(reduce), origin_});
  return syms().Axis(axis, extent);
}

std::vector<ValueId> Builder::EndReduce(std::span<const ValueId> yields, const Combine& combine) {
  const bool open = frames_.size() > 1 && std::holds_alternative<Reduce>(frames_.back().stmt.node);
  if (!Check(open, "EndReduce without BeginReduce")) return std::vector<ValueId>(yields.size(), kNone);
  Stmt stmt = Close();
  Reduce& reduce = std::get<Reduce>(stmt.node);
  const std::vector<DType> types = reduce.types;
  auto typed = [&](std::span<const ValueId> values) {
    if (values.size() != types.size()) return false;
    for (size_t i = 0; i < values.size(); ++i) {
      if (KnownType(values[i]) != types[i]) return false;
    }
    return true;
  };
  Check(typed(yields), "a reduction's yields have the types of init");
  reduce.yields.assign(yields.begin(), yields.end());
  for (DType type : types) reduce.a.push_back(NewValue(type));
  for (DType type : types) reduce.b.push_back(NewValue(type));
  const std::vector<ValueId> a = reduce.a, b = reduce.b;
  Open(std::move(stmt));
  std::vector<ValueId> combined = combine(*this, a, b);
  Check(typed(combined), "a reduction's combine gives the types of init");
  stmt = Close();
  Reduce& done = std::get<Reduce>(stmt.node);
  done.combined = std::move(combined);
  for (DType type : types) done.results.push_back(NewValue(type));
  std::vector<ValueId> results = done.results;
  block().push_back(std::move(stmt));
  return results;
}

}  // namespace kiln::loop
