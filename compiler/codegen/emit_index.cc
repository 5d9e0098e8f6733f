#include "compiler/codegen/emit_index.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln::codegen {
namespace {

// Expressions nest through divisions, remainders, minima and maxima only, so real ones stay far below.
constexpr int kMaxNesting = 200;

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

bool IsWithinInt32(SymRange range) { return range.min >= 0 && range.max <= kMaxInt32; }

}  // namespace

IndexEmitter::IndexEmitter(SymContext& syms, llvm::IRBuilderBase& b, std::function<llvm::Value*(uint32_t)> size_of,
                           std::function<const LoopValue&(loop::ValueId)> value_of, bool narrow_divisions)
    : syms_(syms),
      b_(b),
      size_of_(std::move(size_of)),
      value_of_(std::move(value_of)),
      narrow_divisions_(narrow_divisions) {}

void IndexEmitter::EnterScope() {
  llvm::BasicBlock* head = b_.GetInsertBlock();
  llvm::BasicBlock* code = llvm::BasicBlock::Create(b_.getContext(), "", head->getParent());
  b_.CreateBr(code);
  b_.SetInsertPoint(code);
  scopes_.push_back({head, {}, {}});
}

void IndexEmitter::LeaveScope() {
  for (const uint32_t id : scopes_.back().uniform) uniform_.erase(id);
  for (const uint32_t id : scopes_.back().lanes) lanes_.erase(id);
  scopes_.pop_back();
}

void IndexEmitter::BindAxis(loop::AxisId axis, llvm::Value* value) { axes_[axis] = {value, depth() - 1}; }

llvm::Value* IndexEmitter::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
  return llvm::PoisonValue::get(b_.getInt64Ty());
}

bool IndexEmitter::IsVarying(Sym s) const {
  if (vector_.lanes == 1) return false;
  for (const Var var : syms_.Variables(s)) {
    if (var.kind == VarKind::kAxis && var.index == vector_.axis) return true;
    if (var.kind == VarKind::kValue && value_of_(var.index).varying) return true;
  }
  return false;
}

// --- uniform ---

llvm::Value* IndexEmitter::Uniform(Sym s) { return Place(s, 0).value; }

template <typename F>
llvm::Value* IndexEmitter::AtHead(int depth, F emit) {
  if (depth >= this->depth()) return emit();
  const llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(scopes_[depth].head->getTerminator());
  return emit();
}

IndexEmitter::Placed IndexEmitter::Place(Sym s, int nesting) {
  if (const auto constant = syms_.AsConst(s)) return {b_.getInt64(*constant), 0};
  if (const auto found = uniform_.find(s.id); found != uniform_.end()) return found->second;
  if (nesting > kMaxNesting) {
    return {Fail(absl::UnimplementedError(absl::StrCat("index expression nested deeper than ", kMaxNesting))), 0};
  }
  const Placed placed = PlaceNode(s, nesting + 1);
  uniform_[s.id] = placed;
  scopes_[std::min(placed.depth, depth() - 1)].uniform.push_back(s.id);
  return placed;
}

IndexEmitter::Placed IndexEmitter::PlaceNode(Sym s, int nesting) {
  const SymNode node = syms_.Node(s);
  switch (node.op) {
    case SymNode::Op::kConst:
      return {b_.getInt64(node.value), 0};
    case SymNode::Op::kVar:
      return PlaceVariable(node.var);
    case SymNode::Op::kAdd:
    case SymNode::Op::kMul:
      return PlaceFold(node.args, node.op, nesting);
    default:
      break;
  }
  const Sym a = node.args[0], b = node.args[1];
  const Placed x = Place(a, nesting), y = Place(b, nesting);
  const int depth = std::max(x.depth, y.depth);
  return {AtHead(depth, [&] { return Binary(node.op, a, b, x.value, y.value); }), depth};
}

IndexEmitter::Placed IndexEmitter::PlaceVariable(Var var) {
  switch (var.kind) {
    case VarKind::kSize: {
      const auto [found, is_new] = sizes_.try_emplace(var.index);
      if (is_new) found->second = {AtHead(0, [&] { return size_of_(var.index); }), 0};
      return found->second;
    }
    case VarKind::kAxis: {
      const auto found = axes_.find(var.index);
      if (found == axes_.end())
        return {Fail(absl::InternalError(absl::StrCat("axis i", var.index, " is not open"))), 0};
      return found->second;
    }
    case VarKind::kValue: {
      const LoopValue& value = value_of_(var.index);
      if (value.value == nullptr || value.type != DType::kInt64) {
        return {Fail(absl::InternalError(absl::StrCat("v", var.index, " is no index"))), 0};
      }
      return {value.value, value.depth};
    }
  }
  return {Fail(absl::InternalError("kind of variable")), 0};
}

// Sums and products take their operands outermost first, so that what loops share is computed outside.
IndexEmitter::Placed IndexEmitter::PlaceFold(std::span<const Sym> args, SymNode::Op op, int nesting) {
  std::vector<Placed> operands;
  for (const Sym arg : args) operands.push_back(Place(arg, nesting));
  std::vector<size_t> order(operands.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t x, size_t y) { return std::pair(operands[x].depth, x) < std::pair(operands[y].depth, y); });
  Placed result = operands[order[0]];
  for (size_t i = 1; i < order.size(); ++i) {
    const Placed& operand = operands[order[i]];
    result.value = AtHead(operand.depth, [&] {
      return op == SymNode::Op::kAdd ? b_.CreateAdd(result.value, operand.value)
                                     : b_.CreateMul(result.value, operand.value);
    });
    result.depth = operand.depth;
  }
  return result;
}

llvm::Value* IndexEmitter::Binary(SymNode::Op op, Sym a, Sym b, llvm::Value* x, llvm::Value* y) {
  switch (op) {
    case SymNode::Op::kMin:
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
    case SymNode::Op::kMax:
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, y);
    default:
      return Divide(op == SymNode::Op::kMod, a, b, x, y);
  }
}

// x // y or x % y towards minus infinity. It may run where the kernel would not have come (hoisted out of an empty
// loop, inactive lanes): a zero divisor divides by 1.
llvm::Value* IndexEmitter::Divide(bool remainder, Sym a, Sym b, llvm::Value* x, llvm::Value* y) {
  const SymRange dividend = syms_.RangeOf(a), divisor = syms_.RangeOf(b);
  if (divisor.min < 0) return DivideByAnySign(remainder, x, y);
  llvm::Type* type = x->getType();
  if (!syms_.AsConst(b)) y = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, y, llvm::ConstantInt::get(type, 1));
  if (dividend.min >= 0) {
    // Vectors of i32 have a multiplication that keeps the upper half; vectors of i64 do not.
    const bool narrow = (type->isVectorTy() || narrow_divisions_) && IsWithinInt32(dividend) && IsWithinInt32(divisor);
    if (narrow) {
      llvm::Type* i32 = TypeLike(b_.getInt32Ty(), x);
      x = b_.CreateTrunc(x, i32);
      y = b_.CreateTrunc(y, i32);
    }
    llvm::Value* result = remainder ? b_.CreateURem(x, y) : b_.CreateUDiv(x, y);
    return b_.CreateZExt(result, type);
  }
  return DivideByPositive(remainder, x, y);
}

// A divisor that ranges do not show to be positive, though it is: a size that is a sum of floor divisions, say.
// x // y is -x // -y, and x % y is -(-x % -y).
llvm::Value* IndexEmitter::DivideByAnySign(bool remainder, llvm::Value* x, llvm::Value* y) {
  llvm::Type* type = x->getType();
  llvm::Value* flip = b_.CreateICmpSLT(y, llvm::Constant::getNullValue(type));
  x = b_.CreateSelect(flip, b_.CreateNeg(x), x);
  y = b_.CreateSelect(flip, b_.CreateNeg(y), y);
  y = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, y, llvm::ConstantInt::get(type, 1));
  llvm::Value* result = DivideByPositive(remainder, x, y);
  return remainder ? b_.CreateSelect(flip, b_.CreateNeg(result), result) : result;
}

llvm::Value* IndexEmitter::DivideByPositive(bool remainder, llvm::Value* x, llvm::Value* y) {
  llvm::Type* type = x->getType();
  llvm::Value* quotient = b_.CreateSDiv(x, y);
  llvm::Value* rest = b_.CreateSub(x, b_.CreateMul(quotient, y));
  llvm::Value* negative = b_.CreateICmpSLT(rest, llvm::Constant::getNullValue(type));
  if (remainder) return b_.CreateSelect(negative, b_.CreateAdd(rest, y), rest);
  return b_.CreateAdd(quotient, b_.CreateSExt(negative, type));
}

// --- varying ---

llvm::Value* IndexEmitter::Lanes(Sym s) { return LanesOrSplat(s, 0); }

llvm::Value* IndexEmitter::LanesOrSplat(Sym s, int nesting) {
  if (!IsVarying(s)) return Splat(b_, Uniform(s), vector_.lanes);
  if (const auto found = lanes_.find(s.id); found != lanes_.end()) return found->second;
  if (nesting > kMaxNesting) {
    Fail(absl::UnimplementedError(absl::StrCat("index expression nested deeper than ", kMaxNesting)));
    return llvm::PoisonValue::get(WithLanes(b_.getInt64Ty(), vector_.lanes));
  }
  llvm::Value* value = EmitLanes(s, nesting + 1);
  lanes_[s.id] = value;
  scopes_.back().lanes.push_back(s.id);
  return value;
}

// start + step * lane with a constant step, or with an expression's (then `step` is 0 and `offsets` is set).
bool IndexEmitter::LinearInVectorAxis(Sym s, IndexPattern* pattern, int64_t* step) {
  const auto linear = syms_.AsLinear(s, Var{VarKind::kAxis, vector_.axis});
  if (!linear || IsVarying(linear->rest) || IsVarying(linear->coefficient)) return false;
  llvm::Value* coefficient = Uniform(linear->coefficient);
  *step = syms_.AsConst(linear->coefficient).value_or(0);
  llvm::Value* first = *step == 1 ? vector_.first : b_.CreateMul(vector_.first, coefficient);
  pattern->start = b_.CreateAdd(Uniform(linear->rest), first);
  if (*step != 0) {
    pattern->offsets = Iota(b_.getInt64Ty(), vector_.lanes, *step);
  } else {
    llvm::Value* stride = Splat(b_, coefficient, vector_.lanes);
    pattern->offsets = b_.CreateMul(stride, Iota(b_.getInt64Ty(), vector_.lanes));
  }
  return true;
}

llvm::Value* IndexEmitter::EmitLanes(Sym s, int nesting) {
  IndexPattern linear;
  int64_t step = 0;
  if (LinearInVectorAxis(s, &linear, &step)) {
    return b_.CreateAdd(Splat(b_, linear.start, vector_.lanes), linear.offsets);
  }
  const SymNode node = syms_.Node(s);
  switch (node.op) {
    case SymNode::Op::kVar:
      return LanesOfVariable(node.var);
    case SymNode::Op::kAdd:
    case SymNode::Op::kMul:
      return LanesOfFold(node, nesting);
    default:
      break;
  }
  const Sym a = node.args[0], b = node.args[1];
  llvm::Value* x = LanesOrSplat(a, nesting);
  llvm::Value* y = LanesOrSplat(b, nesting);
  llvm::Value* result = Binary(node.op, a, b, x, y);
  return result->getType() == x->getType() ? result : llvm::PoisonValue::get(x->getType());
}

llvm::Value* IndexEmitter::LanesOfVariable(Var var) {
  const LoopValue& value = value_of_(var.index);
  if (value.type == DType::kInt64) return value.value;
  Fail(absl::InternalError(absl::StrCat("v", var.index, " is no index")));
  return llvm::PoisonValue::get(WithLanes(b_.getInt64Ty(), vector_.lanes));
}

// Uniform operands are folded as scalars first.
llvm::Value* IndexEmitter::LanesOfFold(const SymNode& node, int nesting) {
  const bool is_sum = node.op == SymNode::Op::kAdd;
  std::vector<Sym> uniform, varying;
  for (const Sym arg : node.args) (IsVarying(arg) ? varying : uniform).push_back(arg);
  llvm::Value* result = nullptr;
  if (!uniform.empty()) {
    const Sym folded = is_sum ? syms_.Add(uniform) : syms_.Mul(uniform);
    result = Splat(b_, Uniform(folded), vector_.lanes);
  }
  for (const Sym arg : varying) {
    llvm::Value* value = LanesOrSplat(arg, nesting);
    if (result == nullptr) {
      result = value;
    } else {
      result = is_sum ? b_.CreateAdd(result, value) : b_.CreateMul(result, value);
    }
  }
  return result;
}

// `s` with the vector axis as lanes * q + l: q is the vector's number, l the lane. Itself if that does not make it
// linear in l. Needs every vector to begin at a multiple of lanes, as all do.
std::optional<IndexPattern> IndexEmitter::PatternWithinVector(Sym s) {
  const std::optional<Sym> extent = syms_.Extent(Var{VarKind::kAxis, vector_.axis});
  if (!extent) return std::nullopt;
  const Sym lanes = syms_.Const(vector_.lanes);
  const uint32_t id = syms_.NextIndex(VarKind::kAxis);
  const Sym q = syms_.Axis(id, syms_.CeilDiv(*extent, lanes)), l = syms_.Axis(id + 1, lanes);
  const Sym split = syms_.Substitute(s, [&](Var var) -> std::optional<Sym> {
    if (var != Var{VarKind::kAxis, vector_.axis}) return std::nullopt;
    return syms_.Add(syms_.Mul(lanes, q), l);
  });
  const auto linear = syms_.AsLinear(split, *syms_.AsVar(l));
  if (!linear || IsVarying(split)) return std::nullopt;  // by values of the kernel
  const std::optional<int64_t> step = syms_.AsConst(linear->coefficient);
  if (!step || (*step != 0 && *step != 1)) return std::nullopt;
  IndexPattern pattern;
  BindAxis(id, AtHead(depth() - 1, [&] { return b_.CreateUDiv(vector_.first, b_.getInt64(vector_.lanes)); }));
  pattern.start = Uniform(linear->rest);
  if (*step == 0) return pattern;
  pattern.kind = IndexPattern::Kind::kContiguous;
  pattern.offsets = Iota(b_.getInt64Ty(), vector_.lanes);
  pattern.starts_on_vector = syms_.ProvablyDivisible(linear->rest, lanes);
  return pattern;
}

IndexPattern IndexEmitter::Pattern(Sym s) {
  IndexPattern pattern;
  if (!IsVarying(s)) {
    pattern.start = Uniform(s);
    return pattern;
  }
  int64_t step = 0;
  if (LinearInVectorAxis(s, &pattern, &step)) {
    pattern.kind = step == 1 ? IndexPattern::Kind::kContiguous : IndexPattern::Kind::kGather;
    const auto linear = syms_.AsLinear(s, Var{VarKind::kAxis, vector_.axis});
    pattern.starts_on_vector = step == 1 && syms_.ProvablyDivisible(linear->rest, syms_.Const(vector_.lanes));
    return pattern;
  }
  if (const std::optional<IndexPattern> found = PatternWithinVector(s)) return *found;
  pattern.kind = IndexPattern::Kind::kGather;
  pattern.start = b_.getInt64(0);
  pattern.offsets = Lanes(s);
  return pattern;
}

}  // namespace kiln::codegen
