#include "compiler/codegen/emit_nans.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace kiln::codegen {
namespace {

using loop::Op;

class Finder {
 public:
  Finder(const loop::Kernel& kernel, const EmitTarget& target)
      : kernel_(kernel),
        target_(target),
        short_(kernel.num_values),
        types_(kernel.num_values),
        bits_(kernel.num_values) {}

  std::vector<bool> Find() {
    Visit(kernel_.body);
    return std::move(short_);
  }

 private:
  // Values that loops carry are not looked at: none of them is short.
  void Visit(const loop::Block& block) {
    for (const loop::Stmt& stmt : block) {
      if (const auto* let = std::get_if<loop::Let>(&stmt.node)) {
        const uint32_t i = Id(let->result);
        if (i >= short_.size()) continue;  // the emitter says so
        types_[i] = let->type;
        if (let->op == Op::kConst) bits_[i] = let->imm;
        short_[i] = IsShort(*let);
      } else if (const auto* loop = std::get_if<loop::For>(&stmt.node)) {
        Visit(loop->body);
      } else if (const auto* reduce = std::get_if<loop::Reduce>(&stmt.node)) {
        Visit(reduce->body);
        Visit(reduce->combine);
      }
    }
  }

  uint32_t Id(loop::ValueId id) const { return id - kernel_.first_value; }
  bool Of(loop::ValueId id) const { return Id(id) < short_.size() && short_[Id(id)]; }
  bool All(const loop::Let& let, size_t from = 0) const {
    return std::all_of(let.args.begin() + static_cast<std::ptrdiff_t>(from), let.args.end(),
                       [&](loop::ValueId arg) { return Of(arg); });
  }
  static bool IsWord(DType type) { return type == DType::kInt32 || type == DType::kUInt32; }

  bool IsShort(const loop::Let& let) const {
    if (let.op == Op::kConst) return IsShortConst(let);
    if (let.args.empty()) return false;
    if (let.op == Op::kCast) return IsShortCast(let);
    // Not the other way round: a number may have any bits.
    if (let.op == Op::kBitcast)
      return Of(let.args[0]) && let.type == DType::kFloat32 && IsWord(types_[Id(let.args[0])]);
    if (let.op == Op::kSelect) return All(let, 1);
    return let.type == DType::kFloat32 ? IsShortFloat(let) : IsWord(let.type) && IsShortWord(let);
  }

  static bool IsShortConst(const loop::Let& let) {
    const auto bits = static_cast<uint32_t>(let.imm);
    if (IsWord(let.type)) return (bits & 0xffff) == 0;
    return let.type == DType::kFloat32 && (!std::isnan(std::bit_cast<float>(bits)) || (bits & 0xffff) == 0);
  }

  bool IsShortCast(const loop::Let& let) const {
    const uint32_t from = Id(let.args[0]);
    if (let.type != DType::kFloat32 || from >= types_.size()) return false;
    return types_[from] == DType::kBFloat16 || !IsFloat(types_[from]);
  }

  bool IsShortFloat(const loop::Let& let) const {
    switch (let.op) {
      case Op::kFma:
        return target_.fma && All(let);
      case Op::kAdd:
      case Op::kSub:
      case Op::kMul:
      case Op::kDiv:
      case Op::kNeg:
      case Op::kAbs:
      case Op::kMin:
      case Op::kMax:
      case Op::kFloor:
      case Op::kCeil:
      case Op::kTrunc:
      case Op::kRound:
      case Op::kCopysign:
      case Op::kSqrt:
        return All(let);
      default:
        return false;
    }
  }

  bool IsShortWord(const loop::Let& let) const {
    switch (let.op) {
      case Op::kAdd:
      case Op::kSub:
      case Op::kOr:
      case Op::kXor:
        return All(let);
      case Op::kMul:
      case Op::kAnd:
        return Of(let.args[0]) || Of(let.args[1]);
      case Op::kShl:
        return Of(let.args[0]) || ShiftsOut(let.args[1]);
      default:
        return false;
    }
  }

  // A constant count of 16 and more.
  bool ShiftsOut(loop::ValueId count) const { return Id(count) < bits_.size() && bits_[Id(count)] >= 16; }

  const loop::Kernel& kernel_;
  const EmitTarget& target_;
  std::vector<bool> short_;
  std::vector<DType> types_;
  std::vector<uint64_t> bits_;  // of constants
};

}  // namespace

std::vector<bool> FindShortNans(const loop::Kernel& kernel, const EmitTarget& target) {
  return Finder(kernel, target).Find();
}

}  // namespace kiln::codegen
