#include "compiler/loop/rules.h"

#include <cmath>
#include <limits>
#include <utility>

#include "compiler/loop/scalar.h"

namespace kiln::loop {
namespace {

// Bits of the integer part that a type holds exactly.
int IntegerBits(DType type) {
  switch (type) {
    case DType::kFloat16:
      return 11;
    case DType::kBFloat16:
      return 8;
    case DType::kFloat32:
      return 24;
    case DType::kFloat64:
      return 53;
    default:
      return 0;
  }
}

std::optional<Replacement> Value(ValueId value) { return Replacement{.value = value, .let = std::nullopt}; }

std::optional<Replacement> Constant(const Let& like, uint64_t bits) {
  Let let{.result = like.result, .type = like.type, .op = Op::kConst, .imm = Canonical(like.type, bits)};
  return Replacement{.value = std::nullopt, .let = std::move(let)};
}

std::optional<Replacement> Other(const Let& like, Op op, std::vector<ValueId> args) {
  return Replacement{.value = std::nullopt,
                     .let = Let{.result = like.result, .type = like.type, .op = op, .args = std::move(args)}};
}

// One Let and the definitions of its operands.
class Matcher {
 public:
  Matcher(const Let& let, const DefinitionFn& definition) : let_(let), definition_(definition) {}

  std::optional<Replacement> Apply() const {
    if (let_.op == Op::kLoad) return ApplyLoad();
    if (let_.op == Op::kConst || let_.op == Op::kIndex || let_.op == Op::kCheckIndex) return std::nullopt;
    if (auto folded = Fold()) return folded;
    switch (let_.op) {
      case Op::kCast:
        return ApplyCast();
      case Op::kBitcast:
        return ApplyBitcast();
      case Op::kSelect:
        return ApplySelect();
      case Op::kNeg:
      case Op::kNot:
        return ApplyInvolution();
      case Op::kAbs:
      case Op::kFloor:
      case Op::kCeil:
      case Op::kTrunc:
      case Op::kRound:
        return IsOp(0, let_.op) ? Value(let_.args[0]) : std::nullopt;
      default:
        break;
    }
    return let_.args.size() == 2 ? ApplyBinary() : std::nullopt;
  }

 private:
  const Let* Def(size_t i) const { return definition_(let_.args[i]); }
  bool IsOp(size_t i, Op op) const { return Def(i) != nullptr && Def(i)->op == op; }
  bool IsConst(size_t i) const { return IsOp(i, Op::kConst); }
  // Operand i is the constant with this value: an integer (as Let::imm), or a float that equals it, sign of zero
  // included.
  bool IsInteger(size_t i, int64_t value) const {
    return IsConst(i) && !IsFloat(Def(i)->type) && Def(i)->imm == Canonical(Def(i)->type, static_cast<uint64_t>(value));
  }
  bool IsFloating(size_t i, double value) const {
    return IsConst(i) && IsFloat(Def(i)->type) && Def(i)->imm == FromDouble(Def(i)->type, value);
  }
  bool Is(size_t i, double value) const { return IsInteger(i, static_cast<int64_t>(value)) || IsFloating(i, value); }

  std::optional<Replacement> Fold() const {
    if (let_.op >= Op::kExp || let_.args.empty()) return std::nullopt;
    uint64_t bits[3] = {};
    for (size_t i = 0; i < let_.args.size(); ++i) {
      if (!IsConst(i)) return std::nullopt;
      bits[i] = Def(i)->imm;
    }
    const DType type = Def(let_.args.size() - 1)->type;
    if (let_.op == Op::kCast) return Constant(let_, CastBits(type, let_.type, bits[0]));
    if (let_.op == Op::kBitcast) return Constant(let_, bits[0]);
    const uint64_t result = EvalOp(let_.op, type, bits);
    // Any NaN will do: the same one whatever the compiling host gives.
    const bool nan = IsFloat(let_.type) && std::isnan(ToDouble(let_.type, result)) && let_.op != Op::kSelect;
    return Constant(let_, nan ? FromDouble(let_.type, std::numeric_limits<double>::quiet_NaN()) : result);
  }

  std::optional<Replacement> ApplyLoad() const {
    const Let* mask = let_.mask == kNone ? nullptr : definition_(let_.mask);
    if (mask == nullptr || mask->op != Op::kConst) return std::nullopt;
    if (mask->imm == 0) return Value(let_.other);
    Let plain = let_;
    plain.mask = plain.other = kNone;
    return Replacement{.value = std::nullopt, .let = std::move(plain)};
  }

  // Type of a cast's operand, if it is known.
  std::optional<DType> SourceType(const Let& cast) const {
    const Let* source = definition_(cast.args[0]);
    return source == nullptr ? std::nullopt : std::optional(source->type);
  }

  std::optional<Replacement> ApplyCast() const {
    if (!IsOp(0, Op::kCast)) return std::nullopt;
    const Let& inner = *Def(0);
    const std::optional<DType> from = SourceType(inner);
    if (!from || !IsLossless(*from, inner.type)) return std::nullopt;
    if (let_.type == *from) return Value(inner.args[0]);
    const bool through_float = !IsFloat(*from) && IsFloat(inner.type) && !IsFloat(let_.type);
    if (through_float && let_.type != DType::kBool && !IsLossless(*from, let_.type)) return std::nullopt;
    return Other(let_, Op::kCast, {inner.args[0]});
  }

  std::optional<Replacement> ApplyBitcast() const {
    if (!IsOp(0, Op::kBitcast)) return std::nullopt;
    const Let& inner = *Def(0);
    if (SourceType(inner) == let_.type) return Value(inner.args[0]);
    return Other(let_, Op::kBitcast, {inner.args[0]});
  }

  std::optional<Replacement> ApplySelect() const {
    if (IsConst(0)) return Value(let_.args[Def(0)->imm != 0 ? 1 : 2]);
    if (let_.args[1] == let_.args[2]) return Value(let_.args[1]);
    if (IsOp(0, Op::kNot)) return Other(let_, Op::kSelect, {Def(0)->args[0], let_.args[2], let_.args[1]});
    return std::nullopt;
  }

  std::optional<Replacement> ApplyInvolution() const {
    return IsOp(0, let_.op) ? Value(Def(0)->args[0]) : std::nullopt;
  }

  std::optional<Replacement> ApplyBinary() const {
    const ValueId a = let_.args[0], b = let_.args[1];
    switch (let_.op) {
      case Op::kAdd:  // x + 0.0 is not x for x = -0.0, x + -0.0 is
        if (IsInteger(1, 0) || IsFloating(1, -0.0)) return Value(a);
        if (IsInteger(0, 0) || IsFloating(0, -0.0)) return Value(b);
        break;
      case Op::kSub:
        if (Is(1, 0.0)) return Value(a);
        break;
      case Op::kMul:
        if (Is(1, 1)) return Value(a);
        if (Is(0, 1)) return Value(b);
        if (IsInteger(1, 0)) return Value(b);
        if (IsInteger(0, 0)) return Value(a);
        break;
      case Op::kDiv:
        if (Is(1, 1)) return Value(a);
        break;
      case Op::kMin:
      case Op::kMax:
        if (a == b) return Value(a);
        break;
      default:
        return ApplyLogic();
    }
    return std::nullopt;
  }

  std::optional<Replacement> ApplyLogic() const {
    const ValueId a = let_.args[0], b = let_.args[1];
    switch (let_.op) {
      case Op::kAnd:
        if (a == b || IsInteger(1, -1) || IsInteger(0, 0)) return Value(a);
        if (IsInteger(0, -1) || IsInteger(1, 0)) return Value(b);
        break;
      case Op::kOr:
        if (a == b || IsInteger(1, 0) || IsInteger(0, -1)) return Value(a);
        if (IsInteger(0, 0) || IsInteger(1, -1)) return Value(b);
        break;
      case Op::kXor:
        if (IsInteger(1, 0)) return Value(a);
        if (IsInteger(0, 0)) return Value(b);
        break;
      case Op::kShl:
      case Op::kShr:
        if (IsInteger(1, 0)) return Value(a);
        break;
      default:
        break;
    }
    return std::nullopt;
  }

  const Let& let_;
  const DefinitionFn& definition_;
};

}  // namespace

bool IsLossless(DType from, DType to) {
  if (from == to) return true;
  if (to == DType::kBool) return false;
  if (from == DType::kBool) return true;
  if (IsInt(from) && IsInt(to)) {
    if (IsUnsignedInt(from) == IsUnsignedInt(to)) return ByteSize(to) >= ByteSize(from);
    return IsUnsignedInt(from) && ByteSize(to) > ByteSize(from);
  }
  // A signed type of n bits has magnitudes up to 2^(n-1), one bit less.
  if (IsInt(from)) return IsFloat(to) && ByteSize(from) * 8 - (IsSignedInt(from) ? 1 : 0) <= IntegerBits(to);
  if (!IsFloat(from) || !IsFloat(to)) return false;
  if (to == DType::kFloat64) return true;
  return to == DType::kFloat32 && from != DType::kFloat64;
}

std::optional<Replacement> ApplyRules(const Let& let, const DefinitionFn& definition) {
  return Matcher(let, definition).Apply();
}

}  // namespace kiln::loop
