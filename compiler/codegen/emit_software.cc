#include "compiler/codegen/emit_software.h"

#include <llvm/IR/Function.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

namespace kiln::codegen {
namespace {

using llvm::Value;

constexpr uint64_t kInfinity = uint64_t{0x7ff} << 52;
constexpr uint64_t kImplicitBit = uint64_t{1} << 52;
constexpr uint64_t kSignBit = uint64_t{1} << 63;

// Lanes of the local function for f32: one SSE register.
constexpr unsigned kFloatLanes = 4;

// Lanes [from, from + count) of `value`, padded at the end with lanes of no meaning.
Value* Slice(llvm::IRBuilderBase& b, Value* value, unsigned from, unsigned count) {
  const unsigned lanes = LanesOf(value);
  if (count == 1) return lanes == 1 ? value : b.CreateExtractElement(value, uint64_t{from});
  if (lanes == 1) {
    llvm::Type* type = llvm::FixedVectorType::get(value->getType(), count);
    return b.CreateInsertElement(llvm::PoisonValue::get(type), value, uint64_t{0});
  }
  llvm::SmallVector<int, 64> indices;
  for (unsigned i = 0; i < count; ++i) indices.push_back(from + i < lanes ? static_cast<int>(from + i) : -1);
  return b.CreateShuffleVector(value, indices);
}

// Calls `function`, which takes `count` lanes, on the lanes of `args` in turn.
Value* CallPerLanes(llvm::IRBuilderBase& b, llvm::Function* function, unsigned count, llvm::ArrayRef<Value*> args) {
  const unsigned lanes = LanesOf(args[0]);
  Value* result = llvm::PoisonValue::get(args[0]->getType());
  for (unsigned from = 0; from < lanes; from += count) {
    llvm::SmallVector<Value*, 3> parts;
    for (Value* arg : args) parts.push_back(Slice(b, arg, from, count));
    Value* part = b.CreateCall(function, parts);
    if (lanes == 1) return count == 1 ? part : b.CreateExtractElement(part, uint64_t{0});
    for (unsigned i = 0; i < count && from + i < lanes; ++i) {
      Value* element = count == 1 ? part : b.CreateExtractElement(part, uint64_t{i});
      result = b.CreateInsertElement(result, element, uint64_t{from + i});
    }
  }
  return result;
}

// The module's own function `name` with `arity` parameters of `type`, and whether its body is still to be written.
std::pair<llvm::Function*, bool> LocalFunction(llvm::Module& module, llvm::StringRef name, llvm::Type* type,
                                               unsigned arity) {
  if (llvm::Function* existing = module.getFunction(name)) return {existing, false};
  const llvm::SmallVector<llvm::Type*, 3> params(arity, type);
  llvm::Function* function = llvm::Function::Create(llvm::FunctionType::get(type, params, false),
                                                    llvm::GlobalValue::InternalLinkage, name, module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  return {function, true};
}

// A double taken apart: |value| is mantissa * 2^(exponent - 1075).
struct Parts {
  Value* bits = nullptr;      // with the sign
  Value* mantissa = nullptr;  // the implicit bit included
  Value* exponent = nullptr;  // biased; 1 for subnormal values
};

Parts TakeApart(llvm::IRBuilderBase& b, Value* value) {
  Parts parts;
  parts.bits = b.CreateBitCast(value, b.getInt64Ty());
  Value* exponent = b.CreateAnd(b.CreateLShr(parts.bits, 52), 0x7ff);
  Value* fraction = b.CreateAnd(parts.bits, kImplicitBit - 1);
  Value* normal = b.CreateICmpNE(exponent, b.getInt64(0));
  parts.mantissa = b.CreateSelect(normal, b.CreateOr(fraction, kImplicitBit), fraction);
  parts.exponent = b.CreateSelect(normal, exponent, b.getInt64(1));
  return parts;
}

Value* LeadingZeros(llvm::IRBuilderBase& b, Value* value) {
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, value, b.getFalse());
}

Value* SMin(llvm::IRBuilderBase& b, Value* x, Value* y) { return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y); }
Value* SMax(llvm::IRBuilderBase& b, Value* x, Value* y) { return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, y); }

// mantissa(x) * 2^(difference of exponents) modulo mantissa(y), eleven bits a step.
Value* EmitFmodLoop(llvm::IRBuilderBase& b, llvm::Function* function, const Parts& x, const Parts& y) {
  llvm::LLVMContext& context = b.getContext();
  auto* head = llvm::BasicBlock::Create(context, "head", function);
  auto* body = llvm::BasicBlock::Create(context, "body", function);
  auto* done = llvm::BasicBlock::Create(context, "done", function);
  Value* first = b.CreateURem(x.mantissa, y.mantissa);
  Value* difference = b.CreateSub(x.exponent, y.exponent);
  llvm::BasicBlock* entry = b.GetInsertBlock();
  b.CreateBr(head);

  b.SetInsertPoint(head);
  llvm::PHINode* remainder = b.CreatePHI(b.getInt64Ty(), 2);
  llvm::PHINode* left = b.CreatePHI(b.getInt64Ty(), 2);
  b.CreateCondBr(b.CreateICmpSGT(left, b.getInt64(0)), body, done);

  b.SetInsertPoint(body);
  Value* step = SMin(b, left, b.getInt64(11));
  Value* next = b.CreateURem(b.CreateShl(remainder, step), y.mantissa);
  remainder->addIncoming(first, entry);
  remainder->addIncoming(next, body);
  left->addIncoming(difference, entry);
  left->addIncoming(b.CreateSub(left, step), body);
  b.CreateBr(head);

  b.SetInsertPoint(done);
  return remainder;
}

// Bits of remainder * 2^(exponent - 1075), which has at most 53 significant bits.
Value* PutTogether(llvm::IRBuilderBase& b, Value* remainder, Value* exponent) {
  Value* headroom = b.CreateSub(LeadingZeros(b, remainder), b.getInt64(11));
  Value* shift = SMin(b, headroom, b.CreateSub(exponent, b.getInt64(1)));
  Value* mantissa = b.CreateShl(remainder, shift);
  // A mantissa without the implicit bit stands for itself: its exponent is 1.
  Value* biased_less_one = b.CreateSub(b.CreateSub(exponent, shift), b.getInt64(1));
  Value* bits = b.CreateAdd(b.CreateShl(biased_less_one, 52), mantissa);
  return b.CreateSelect(b.CreateICmpEQ(remainder, b.getInt64(0)), b.getInt64(0), bits);
}

llvm::Function* FmodFunction(llvm::Module& module) {
  const auto [function, is_new] = LocalFunction(module, "kiln.fmod", llvm::Type::getDoubleTy(module.getContext()), 2);
  if (!is_new) return function;
  llvm::LLVMContext& context = module.getContext();
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(context, "entry", function));
  auto* special = llvm::BasicBlock::Create(context, "special", function);
  auto* general = llvm::BasicBlock::Create(context, "general", function);
  const Parts x = TakeApart(b, function->getArg(0));
  const Parts y = TakeApart(b, function->getArg(1));
  Value* x_abs = b.CreateAnd(x.bits, ~kSignBit);
  Value* y_abs = b.CreateAnd(y.bits, ~kSignBit);
  Value* invalid =
      b.CreateOr(b.CreateICmpUGE(x_abs, b.getInt64(kInfinity)),
                 b.CreateOr(b.CreateICmpUGT(y_abs, b.getInt64(kInfinity)), b.CreateICmpEQ(y_abs, b.getInt64(0))));
  b.CreateCondBr(b.CreateOr(invalid, b.CreateICmpULT(x_abs, y_abs)), special, general);

  b.SetInsertPoint(special);
  Value* nan = llvm::ConstantFP::getNaN(b.getDoubleTy());
  b.CreateRet(b.CreateSelect(invalid, nan, function->getArg(0)));

  b.SetInsertPoint(general);
  Value* remainder = EmitFmodLoop(b, function, x, y);
  Value* bits = PutTogether(b, remainder, y.exponent);
  b.CreateRet(b.CreateBitCast(b.CreateOr(bits, b.CreateAnd(x.bits, kSignBit)), b.getDoubleTy()));
  return function;
}

// --- fma of f64, in 128-bit fixed point ---

// value >> count, with the last bit set if anything was lost. 0 <= count.
Value* ShiftRightJam(llvm::IRBuilderBase& b, Value* value, Value* count) {
  Value* amount = b.CreateZExt(SMin(b, count, b.getInt64(127)), b.getInt128Ty());
  Value* shifted = b.CreateLShr(value, amount);
  Value* lost = b.CreateICmpNE(b.CreateShl(shifted, amount), value);
  return b.CreateOr(shifted, b.CreateZExt(lost, b.getInt128Ty()));
}

// Subnormal mantissas shifted up to 53 bits.
Parts Normalised(llvm::IRBuilderBase& b, Parts parts) {
  Value* shift = b.CreateSub(LeadingZeros(b, parts.mantissa), b.getInt64(11));
  parts.mantissa = b.CreateShl(parts.mantissa, shift);
  parts.exponent = b.CreateSub(parts.exponent, shift);
  return parts;
}

// The f64 nearest to magnitude * 2^exponent, magnitude < 2^127, as bits without a sign.
Value* RoundToDouble(llvm::IRBuilderBase& b, Value* magnitude, Value* exponent) {
  llvm::Type* i128 = b.getInt128Ty();
  Value* top = b.CreateSub(b.getInt64(127), b.CreateTrunc(LeadingZeros(b, magnitude), b.getInt64Ty()));
  // Bits to drop: down to 53, or to multiples of 2^-1074 if that drops more.
  Value* drop = SMax(b, b.CreateSub(top, b.getInt64(52)), b.CreateSub(b.getInt64(-1074), exponent));
  Value* right = b.CreateZExt(SMin(b, SMax(b, drop, b.getInt64(1)), b.getInt64(127)), i128);
  Value* left = b.CreateZExt(SMax(b, b.CreateNeg(drop), b.getInt64(0)), i128);
  Value* quotient = b.CreateLShr(magnitude, right);
  Value* rest = b.CreateSub(magnitude, b.CreateShl(quotient, right));
  Value* half = b.CreateShl(llvm::ConstantInt::get(i128, 1), b.CreateSub(right, llvm::ConstantInt::get(i128, 1)));
  Value* odd = b.CreateTrunc(quotient, b.getInt1Ty());
  Value* up = b.CreateOr(b.CreateICmpUGT(rest, half), b.CreateAnd(b.CreateICmpEQ(rest, half), odd));
  Value* rounded = b.CreateAdd(quotient, b.CreateZExt(up, i128));
  rounded = b.CreateSelect(b.CreateICmpSGT(drop, b.getInt64(127)), llvm::ConstantInt::get(i128, 0), rounded);
  Value* exact = b.CreateShl(magnitude, left);
  Value* mantissa = b.CreateSelect(b.CreateICmpSGT(drop, b.getInt64(0)), rounded, exact);
  // The implicit bit, or a carry out of the mantissa, adds one to the exponent field.
  Value* field = b.CreateAdd(b.CreateAdd(exponent, drop), b.getInt64(1074));
  Value* bits = b.CreateAdd(b.CreateShl(field, 52), b.CreateTrunc(mantissa, b.getInt64Ty()));
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, bits, b.getInt64(kInfinity));
}

// Bits of x * y + z for finite operands, x and y not zero. The product is exact in 106 bits; z, or the product if it is
// the smaller, is aligned to it in 127 bits with a sticky bit. Wherever bits are lost the exponents differ by enough
// that at most one leading bit cancels, so the sticky bit stays below the rounding position.
Value* FmaFinite(llvm::IRBuilderBase& b, const Parts& x, const Parts& y, const Parts& z) {
  llvm::Type* i128 = b.getInt128Ty();
  constexpr int kProductShift = 20;
  constexpr int kMaxShift = 72;
  Value* product = b.CreateMul(b.CreateZExt(x.mantissa, i128), b.CreateZExt(y.mantissa, i128));
  product = b.CreateShl(product, kProductShift);
  Value* exponent = b.CreateAdd(b.CreateAdd(x.exponent, y.exponent), b.getInt64(-2 * 1075 - kProductShift));
  Value* distance = b.CreateSub(b.CreateAdd(z.exponent, b.getInt64(-1075)), exponent);
  Value* zero = b.getInt64(0);
  Value* z_left = SMin(b, SMax(b, distance, zero), b.getInt64(kMaxShift));
  Value* z_right = SMax(b, b.CreateNeg(distance), zero);
  Value* product_right = SMax(b, b.CreateSub(distance, b.getInt64(kMaxShift)), zero);
  Value* addend = ShiftRightJam(b, b.CreateZExt(z.mantissa, i128), z_right);
  addend = b.CreateShl(addend, b.CreateZExt(z_left, i128));
  product = ShiftRightJam(b, product, product_right);
  exponent = b.CreateAdd(exponent, product_right);

  Value* product_sign = b.CreateAnd(b.CreateXor(x.bits, y.bits), kSignBit);
  Value* addend_sign = b.CreateAnd(z.bits, kSignBit);
  Value* same = b.CreateICmpEQ(product_sign, addend_sign);
  Value* smaller = b.CreateICmpULT(product, addend);
  Value* difference = b.CreateSelect(smaller, b.CreateSub(addend, product), b.CreateSub(product, addend));
  Value* magnitude = b.CreateSelect(same, b.CreateAdd(product, addend), difference);
  Value* sign = b.CreateSelect(smaller, addend_sign, product_sign);
  Value* bits = b.CreateOr(RoundToDouble(b, magnitude, exponent), sign);
  // Opposite values cancel to +0.
  return b.CreateSelect(b.CreateICmpEQ(magnitude, llvm::ConstantInt::get(i128, 0)), zero, bits);
}

llvm::Function* FmaFunction(llvm::Module& module) {
  const auto [function, is_new] = LocalFunction(module, "kiln.fma", llvm::Type::getDoubleTy(module.getContext()), 3);
  if (!is_new) return function;
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(module.getContext(), "entry", function));
  Value* const x = function->getArg(0);
  Value* const y = function->getArg(1);
  Value* const z = function->getArg(2);
  auto is_special = [&](const Parts& parts) { return b.CreateICmpEQ(parts.exponent, b.getInt64(0x7ff)); };
  auto is_zero = [&](const Parts& parts) { return b.CreateICmpEQ(parts.mantissa, b.getInt64(0)); };
  const Parts xs = TakeApart(b, x), ys = TakeApart(b, y), zs = TakeApart(b, z);
  Value* bits = FmaFinite(b, Normalised(b, xs), Normalised(b, ys), Normalised(b, zs));
  Value* result = b.CreateSelect(is_special(zs), b.CreateFAdd(z, z), b.CreateBitCast(bits, b.getDoubleTy()));
  // With a zero or special factor, two roundings are as good as one.
  Value* exact = b.CreateOr(b.CreateOr(is_zero(xs), is_zero(ys)), b.CreateOr(is_special(xs), is_special(ys)));
  b.CreateRet(b.CreateSelect(exact, b.CreateFAdd(b.CreateFMul(x, y), z), result));
  return function;
}

// f32: the product is exact in f64; the sum is rounded to odd there, after which rounding to f32 is the only rounding
// (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
Value* FmaFloat(llvm::IRBuilderBase& b, Value* x, Value* y, Value* z) {
  llvm::Type* f64 = TypeLike(b.getDoubleTy(), x);
  llvm::Type* i64 = TypeLike(b.getInt64Ty(), x);
  Value* product = b.CreateFMul(b.CreateFPExt(x, f64), b.CreateFPExt(y, f64));
  Value* addend = b.CreateFPExt(z, f64);
  Value* sum = b.CreateFAdd(product, addend);
  Value* part = b.CreateFSub(sum, product);
  Value* error = b.CreateFAdd(b.CreateFSub(product, b.CreateFSub(sum, part)), b.CreateFSub(addend, part));  // TwoSum
  Value* zero = llvm::Constant::getNullValue(f64);
  Value* bits = b.CreateBitCast(sum, i64);
  Value* even = b.CreateNot(b.CreateTrunc(bits, TypeLike(b.getInt1Ty(), x)));
  Value* inexact = b.CreateFCmpONE(error, zero);
  Value* away = b.CreateICmpEQ(b.CreateFCmpOGT(error, zero), b.CreateFCmpOGT(sum, zero));
  Value* step = b.CreateSelect(away, llvm::ConstantInt::get(i64, 1), llvm::Constant::getAllOnesValue(i64));
  Value* odd = b.CreateSelect(b.CreateAnd(inexact, even), b.CreateAdd(bits, step), bits);
  return b.CreateFPTrunc(b.CreateBitCast(odd, f64), x->getType());
}

llvm::Function* FloatFmaFunction(llvm::Module& module) {
  llvm::Type* type = llvm::FixedVectorType::get(llvm::Type::getFloatTy(module.getContext()), kFloatLanes);
  const auto [function, is_new] = LocalFunction(module, "kiln.fmaf", type, 3);
  if (!is_new) return function;
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(module.getContext(), "entry", function));
  b.CreateRet(FmaFloat(b, function->getArg(0), function->getArg(1), function->getArg(2)));
  return function;
}

}  // namespace

Value* SoftwareFmod(const EmitContext& context, Value* x, Value* y) {
  llvm::IRBuilderBase& b = context.b;
  llvm::Type* f64 = TypeLike(b.getDoubleTy(), x);
  // The remainder of two f32 values is one itself.
  Value* result = CallPerLanes(b, FmodFunction(context.module), 1, {b.CreateFPExt(x, f64), b.CreateFPExt(y, f64)});
  return b.CreateFPTrunc(result, x->getType());
}

Value* SoftwareFma(const EmitContext& context, Value* x, Value* y, Value* z) {
  if (x->getType()->getScalarType()->isFloatTy()) {
    return CallPerLanes(context.b, FloatFmaFunction(context.module), kFloatLanes, {x, y, z});
  }
  return CallPerLanes(context.b, FmaFunction(context.module), 1, {x, y, z});
}

Value* SoftwareHalfToFloat(const EmitContext& context, Value* bits) {
  llvm::IRBuilderBase& b = context.b;
  llvm::Type* i32 = TypeLike(b.getInt32Ty(), bits);
  llvm::Type* f32 = TypeLike(b.getFloatTy(), bits);
  auto word = [&](uint32_t value) { return llvm::ConstantInt::get(i32, value); };
  Value* wide = b.CreateZExt(bits, i32);
  Value* magnitude = b.CreateShl(b.CreateAnd(wide, word(0x7fff)), word(13));
  Value* sign = b.CreateShl(b.CreateAnd(wide, word(0x8000)), word(16));
  // Exact for subnormals too: their f32 image is subnormal, and 2^112 makes up for the exponents' bias.
  Value* scaled = b.CreateFMul(b.CreateBitCast(magnitude, f32), llvm::ConstantFP::get(f32, 0x1p112));
  Value* special = b.CreateOr(magnitude, word(0x7f800000));
  Value* is_nan = b.CreateICmpUGT(special, word(0x7f800000));
  special = b.CreateOr(special, b.CreateSelect(is_nan, word(0x400000), word(0)));
  Value* is_special = b.CreateICmpUGE(magnitude, word(0x7c00 << 13));
  Value* result = b.CreateSelect(is_special, special, b.CreateBitCast(scaled, i32));
  return b.CreateBitCast(b.CreateOr(result, sign), f32);
}

Value* SoftwareFloatToHalf(const EmitContext& context, Value* value) {
  llvm::IRBuilderBase& b = context.b;
  llvm::Type* i32 = TypeLike(b.getInt32Ty(), value);
  llvm::Type* f32 = TypeLike(b.getFloatTy(), value);
  auto word = [&](uint32_t bits) { return llvm::ConstantInt::get(i32, bits); };
  Value* bits = b.CreateBitCast(value, i32);
  Value* magnitude = b.CreateAnd(bits, word(0x7fffffff));
  Value* sign = b.CreateLShr(b.CreateAnd(bits, word(0x80000000)), word(16));
  // Subnormal results: adding 0.5 rounds to multiples of 2^-24, which are then the low bits.
  Value* shifted = b.CreateFAdd(b.CreateBitCast(magnitude, f32), llvm::ConstantFP::get(f32, 0.5));
  Value* subnormal = b.CreateSub(b.CreateBitCast(shifted, i32), word(0x3f000000));
  // Normal results: the new bias and half a unit (ties to even); the carry may reach infinity.
  Value* odd = b.CreateAnd(b.CreateLShr(magnitude, word(13)), word(1));
  Value* normal = b.CreateAdd(b.CreateAdd(magnitude, word(0xfff - (112u << 23))), odd);
  normal = b.CreateLShr(normal, word(13));
  Value* is_nan = b.CreateICmpUGT(magnitude, word(0x7f800000));
  Value* special = b.CreateSelect(is_nan, word(0x7e00), word(0x7c00));
  Value* result = b.CreateSelect(b.CreateICmpULT(magnitude, word(113u << 23)), subnormal, normal);
  result = b.CreateSelect(b.CreateICmpUGE(magnitude, word(143u << 23)), special, result);
  return b.CreateTrunc(b.CreateOr(result, sign), TypeLike(b.getInt16Ty(), value));
}

}  // namespace kiln::codegen
