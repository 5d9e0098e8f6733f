#include "compiler/codegen/emit_scalar.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include <vector>

#include "compiler/codegen/emit_software.h"

namespace kiln::codegen {
namespace {

using loop::Op;

llvm::Value* Binary(llvm::IRBuilderBase& b, llvm::Intrinsic::ID id, llvm::Value* x, llvm::Value* y) {
  return b.CreateBinaryIntrinsic(id, x, y);
}

// y where it is better than x or NaN, else x (NaN included): one minps or maxps with the operands in the order (y, x),
// whose ties and NaNs give x, and a blend that a constant y does not need.
llvm::Value* FloatMinMax(llvm::IRBuilderBase& b, llvm::Value* is_better, llvm::Value* x, llvm::Value* y) {
  return b.CreateSelect(b.CreateFCmpUNO(y, y), y, b.CreateSelect(is_better, y, x));
}

llvm::Value* EmitFloat(const EmitContext& context, Op op, std::span<llvm::Value* const> args) {
  llvm::IRBuilderBase& b = context.b;
  llvm::Value* x = args[0];
  llvm::Value* y = args.size() > 1 ? args[1] : nullptr;
  switch (op) {
    case Op::kAdd:
      return b.CreateFAdd(x, y);
    case Op::kSub:
      return b.CreateFSub(x, y);
    case Op::kMul:
      return b.CreateFMul(x, y);
    case Op::kDiv:
      return b.CreateFDiv(x, y);
    case Op::kRem:
      return SoftwareFmod(context, x, y);
    case Op::kFma:
      if (!context.target.fma) return SoftwareFma(context, x, y, args[2]);
      return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, args[2]});
    case Op::kNeg:
      return b.CreateFNeg(x);
    case Op::kAbs:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
    case Op::kMin:
      return FloatMinMax(b, b.CreateFCmpOLT(y, x), x, y);
    case Op::kMax:
      return FloatMinMax(b, b.CreateFCmpOGT(y, x), x, y);
    case Op::kFloor:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, x);
    case Op::kCeil:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, x);
    case Op::kTrunc:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, x);
    case Op::kRound:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, x);
    case Op::kCopysign:
      return Binary(b, llvm::Intrinsic::copysign, x, y);
    case Op::kSqrt:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x);
    case Op::kLt:
      return b.CreateFCmpOLT(x, y);
    case Op::kLe:
      return b.CreateFCmpOLE(x, y);
    case Op::kEq:
      return b.CreateFCmpOEQ(x, y);
    case Op::kNe:
      return b.CreateFCmpUNE(x, y);
    default:
      return nullptr;
  }
}

llvm::Value* EmitBool(llvm::IRBuilderBase& b, Op op, std::span<llvm::Value* const> args) {
  llvm::Value* x = args[0];
  llvm::Value* y = args.size() > 1 ? args[1] : nullptr;
  switch (op) {
    case Op::kAnd:
      return b.CreateAnd(x, y);
    case Op::kOr:
      return b.CreateOr(x, y);
    case Op::kXor:
    case Op::kNe:
      return b.CreateXor(x, y);
    case Op::kNot:
      return b.CreateNot(x);
    case Op::kEq:
      return b.CreateNot(b.CreateXor(x, y));
    case Op::kLt:
      return b.CreateAnd(b.CreateNot(x), y);
    case Op::kLe:
      return b.CreateOr(b.CreateNot(x), y);
    default:
      return nullptr;
  }
}

// Bad pairs (a zero divisor, MIN / -1) divide by 1 instead, so that nothing traps, and give 0.
llvm::Value* IntDivide(llvm::IRBuilderBase& b, Op op, bool is_signed, llvm::Value* x, llvm::Value* y) {
  llvm::Type* type = x->getType();
  llvm::Value* zero = llvm::Constant::getNullValue(type);
  llvm::Value* bad = b.CreateICmpEQ(y, zero);
  if (is_signed) {
    const llvm::APInt min = llvm::APInt::getSignedMinValue(type->getScalarSizeInBits());
    llvm::Value* overflow = b.CreateAnd(b.CreateICmpEQ(x, llvm::ConstantInt::get(type, min)),
                                        b.CreateICmpEQ(y, llvm::Constant::getAllOnesValue(type)));
    bad = b.CreateOr(bad, overflow);
  }
  llvm::Value* divisor = b.CreateSelect(bad, llvm::ConstantInt::get(type, 1), y);
  if (op == Op::kRem) return is_signed ? b.CreateSRem(x, divisor) : b.CreateURem(x, divisor);  // x rem 1 is 0
  return b.CreateSelect(bad, zero, is_signed ? b.CreateSDiv(x, divisor) : b.CreateUDiv(x, divisor));
}

// A shift by the width or more, or by a negative count, gives what shifting for ever would.
llvm::Value* Shift(llvm::IRBuilderBase& b, Op op, bool is_signed, llvm::Value* x, llvm::Value* count) {
  llvm::Type* type = x->getType();
  const unsigned width = type->getScalarSizeInBits();
  llvm::Value* in_range = b.CreateICmpULT(count, llvm::ConstantInt::get(type, width));
  if (op == Op::kShr && is_signed) {
    return b.CreateAShr(x, b.CreateSelect(in_range, count, llvm::ConstantInt::get(type, width - 1)));
  }
  llvm::Value* zero = llvm::Constant::getNullValue(type);
  llvm::Value* safe = b.CreateSelect(in_range, count, zero);
  return b.CreateSelect(in_range, op == Op::kShl ? b.CreateShl(x, safe) : b.CreateLShr(x, safe), zero);
}

llvm::Value* EmitIntCompare(llvm::IRBuilderBase& b, Op op, bool is_signed, llvm::Value* x, llvm::Value* y) {
  switch (op) {
    case Op::kLt:
      return is_signed ? b.CreateICmpSLT(x, y) : b.CreateICmpULT(x, y);
    case Op::kLe:
      return is_signed ? b.CreateICmpSLE(x, y) : b.CreateICmpULE(x, y);
    case Op::kEq:
      return b.CreateICmpEQ(x, y);
    case Op::kNe:
      return b.CreateICmpNE(x, y);
    default:
      return nullptr;
  }
}

llvm::Value* EmitInt(llvm::IRBuilderBase& b, Op op, bool is_signed, std::span<llvm::Value* const> args) {
  llvm::Value* x = args[0];
  llvm::Value* y = args.size() > 1 ? args[1] : nullptr;
  switch (op) {
    case Op::kAdd:
      return b.CreateAdd(x, y);
    case Op::kSub:
      return b.CreateSub(x, y);
    case Op::kMul:
      return b.CreateMul(x, y);
    case Op::kDiv:
    case Op::kRem:
      return IntDivide(b, op, is_signed, x, y);
    case Op::kNeg:
      return b.CreateNeg(x);
    case Op::kAbs:
      return is_signed ? Binary(b, llvm::Intrinsic::abs, x, b.getFalse()) : x;
    case Op::kMin:
      return Binary(b, is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, x, y);
    case Op::kMax:
      return Binary(b, is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, x, y);
    case Op::kAnd:
      return b.CreateAnd(x, y);
    case Op::kOr:
      return b.CreateOr(x, y);
    case Op::kXor:
      return b.CreateXor(x, y);
    case Op::kNot:
      return b.CreateNot(x);
    case Op::kShl:
    case Op::kShr:
      return Shift(b, op, is_signed, x, y);
    default:
      return EmitIntCompare(b, op, is_signed, x, y);
  }
}

// Lane by lane.
llvm::Value* CallFunction(const EmitContext& context, Op op, DType type, std::span<llvm::Value* const> args) {
  llvm::IRBuilderBase& b = context.b;
  llvm::Type* scalar = args[0]->getType()->getScalarType();
  const std::vector<llvm::Type*> parameters(args.size(), scalar);
  const llvm::FunctionCallee function = context.module.getOrInsertFunction(
      context.target.function_symbol(op, type), llvm::FunctionType::get(scalar, parameters, false));
  if (!args[0]->getType()->isVectorTy())
    return b.CreateCall(function, llvm::ArrayRef<llvm::Value*>(args.data(), args.size()));
  llvm::Value* result = llvm::PoisonValue::get(args[0]->getType());
  for (unsigned lane = 0; lane < LanesOf(args[0]); ++lane) {
    llvm::SmallVector<llvm::Value*, 2> operands;
    for (llvm::Value* arg : args) operands.push_back(b.CreateExtractElement(arg, uint64_t{lane}));
    result = b.CreateInsertElement(result, b.CreateCall(function, operands), uint64_t{lane});
  }
  return result;
}

}  // namespace

llvm::Value* EmitOp(const EmitContext& context, Op op, DType type, std::span<llvm::Value* const> args) {
  if (op == Op::kSelect) return context.b.CreateSelect(args[0], args[1], args[2]);
  if (type == DType::kBool) return EmitBool(context.b, op, args);
  if (loop::IsFunction(op))
    return context.target.function_symbol != nullptr ? CallFunction(context, op, type, args) : nullptr;
  if (type == DType::kFloat32 || type == DType::kFloat64) return EmitFloat(context, op, args);
  if (IsInt(type)) return EmitInt(context.b, op, IsSignedInt(type), args);
  return nullptr;
}

}  // namespace kiln::codegen
