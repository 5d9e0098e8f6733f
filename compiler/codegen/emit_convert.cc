#include "compiler/codegen/emit_convert.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include "compiler/codegen/emit_software.h"

namespace kiln::codegen {
namespace {

bool IsFloat8(DType type) { return IsFloat(type) && ByteSize(type) == 1; }

llvm::Constant* IntLike(const llvm::Value* like, uint64_t bits) {
  return llvm::ConstantInt::get(like->getType(), bits);
}

// Pairs of lanes as words.
llvm::Type* WordsOf(llvm::IRBuilderBase& b, const llvm::Value* lanes) {
  return WithLanes(b.getInt32Ty(), LanesOf(lanes) / 2);
}

bool ComeInPairs(const EmitContext& context, const llvm::Value* lanes) {
  return context.target.bfloat_pairs && LanesOf(lanes) % 2 == 0;
}

// Lanes 2k and 2k + 1 are the lower and the upper half of word k.
llvm::Value* PairsToFloat(llvm::IRBuilderBase& b, llvm::Value* bits) {
  const unsigned lanes = LanesOf(bits);
  llvm::Value* words = b.CreateBitCast(bits, WordsOf(b, bits));
  llvm::Value* result = llvm::PoisonValue::get(WithLanes(b.getFloatTy(), lanes));
  for (unsigned lane = 0; lane < lanes; ++lane) {
    llvm::Value* word = lanes == 2 ? words : b.CreateExtractElement(words, uint64_t{lane / 2});
    word = lane % 2 == 0 ? b.CreateShl(word, 16) : b.CreateAnd(word, 0xffff0000u);
    result = b.CreateInsertElement(result, b.CreateBitCast(word, b.getFloatTy()), uint64_t{lane});
  }
  return result;
}

llvm::Value* FloatToPairs(llvm::IRBuilderBase& b, llvm::Value* value) {
  const unsigned lanes = LanesOf(value);
  llvm::Type* type = WordsOf(b, value);
  llvm::Value* words = llvm::PoisonValue::get(type);
  for (unsigned lane = 0; lane < lanes; lane += 2) {
    llvm::Value* pair = b.CreateIntrinsic(
        llvm::Intrinsic::nvvm_ff2bf16x2_rn, {},
        {b.CreateExtractElement(value, uint64_t{lane + 1}), b.CreateExtractElement(value, uint64_t{lane})});
    llvm::Value* word = b.CreateBitCast(pair, b.getInt32Ty());
    words = lanes == 2 ? word : b.CreateInsertElement(words, word, uint64_t{lane / 2});
  }
  return b.CreateBitCast(words, WithLanes(b.getInt16Ty(), lanes));
}

llvm::Value* Bfloat16ToFloat(const EmitContext& context, llvm::Value* bits) {
  llvm::IRBuilderBase& b = context.b;
  if (ComeInPairs(context, bits)) return PairsToFloat(b, bits);
  llvm::Value* wide = b.CreateZExt(bits, TypeLike(b.getInt32Ty(), bits));
  return b.CreateBitCast(b.CreateShl(wide, IntLike(wide, 16)), TypeLike(b.getFloatTy(), bits));
}

// Round to nearest even on the bits: the carry runs into the exponent, and to infinity, by itself.
llvm::Value* FloatToBfloat16(const EmitContext& context, llvm::Value* value, bool short_nans) {
  llvm::IRBuilderBase& b = context.b;
  if (ComeInPairs(context, value)) return FloatToPairs(b, value);
  if (context.target.bfloat_pairs) {
    llvm::Value* narrow = b.CreateFPTrunc(value, TypeLike(b.getBFloatTy(), value));
    return b.CreateBitCast(narrow, TypeLike(b.getInt16Ty(), value));
  }
  llvm::Value* bits = b.CreateBitCast(value, TypeLike(b.getInt32Ty(), value));
  llvm::Value* upper = b.CreateLShr(bits, IntLike(bits, 16));
  llvm::Value* bias = b.CreateAdd(b.CreateAnd(upper, IntLike(bits, 1)), IntLike(bits, 0x7fff));
  llvm::Value* rounded = b.CreateLShr(b.CreateAdd(bits, bias), IntLike(bits, 16));
  if (!short_nans) {
    llvm::Value* quiet_nan = b.CreateOr(upper, IntLike(bits, 0x40));
    rounded = b.CreateSelect(b.CreateFCmpUNO(value, value), quiet_nan, rounded);
  }
  return b.CreateTrunc(rounded, TypeLike(b.getInt16Ty(), value));
}

llvm::Value* HalfToFloat(const EmitContext& context, llvm::Value* bits) {
  llvm::IRBuilderBase& b = context.b;
  if (!context.target.half_conversion) return SoftwareHalfToFloat(context, bits);
  llvm::Value* half = b.CreateBitCast(bits, TypeLike(b.getHalfTy(), bits));
  return b.CreateFPExt(half, TypeLike(b.getFloatTy(), bits));
}

llvm::Value* FloatToHalf(const EmitContext& context, llvm::Value* value) {
  llvm::IRBuilderBase& b = context.b;
  if (!context.target.half_conversion) return SoftwareFloatToHalf(context, value);
  llvm::Value* half = b.CreateFPTrunc(value, TypeLike(b.getHalfTy(), value));
  return b.CreateBitCast(half, TypeLike(b.getInt16Ty(), value));
}

// cvttss2si and its kin, spelt out: LLVM's fptosi of a value that does not fit is poison, so it is never selected.
llvm::Value* TruncateToSigned(llvm::IRBuilderBase& b, llvm::Value* value, unsigned width) {
  const double limit = width == 32 ? 0x1p31 : 0x1p63;
  llvm::Type* type = TypeLike(b.getIntNTy(width), value);
  llvm::Value* fits = b.CreateAnd(b.CreateFCmpOGE(value, llvm::ConstantFP::get(value->getType(), -limit)),
                                  b.CreateFCmpOLT(value, llvm::ConstantFP::get(value->getType(), limit)));
  llvm::Constant* min = llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(width));
  return b.CreateSelect(fits, b.CreateFPToSI(value, type), min);
}

llvm::Value* FloatToUInt64(llvm::IRBuilderBase& b, llvm::Value* value) {
  llvm::Constant* half = llvm::ConstantFP::get(value->getType(), 0x1p63);
  llvm::Value* upper = b.CreateFCmpOGE(value, half);
  llvm::Value* low = TruncateToSigned(b, b.CreateSelect(upper, b.CreateFSub(value, half), value), 64);
  return b.CreateXor(low, b.CreateSelect(upper, IntLike(low, uint64_t{1} << 63), IntLike(low, 0)));
}

llvm::Value* FloatToInt(llvm::IRBuilderBase& b, DType to, llvm::Value* value) {
  if (to == DType::kUInt64) return FloatToUInt64(b, value);
  const bool narrow = IsSignedInt(to) && to != DType::kInt64;
  llvm::Type* type = TypeLike(RegisterType(b.getContext(), to), value);
  return b.CreateTrunc(TruncateToSigned(b, value, narrow ? 32 : 64), type);
}

llvm::Value* ToBool(llvm::IRBuilderBase& b, DType from, llvm::Value* value) {
  llvm::Constant* zero = llvm::Constant::getNullValue(value->getType());
  return IsFloat(from) ? b.CreateFCmpUNE(value, zero) : b.CreateICmpNE(value, zero);
}

llvm::Value* FromInt(llvm::IRBuilderBase& b, DType from, DType to, llvm::Value* value) {
  llvm::Type* type = TypeLike(RegisterType(b.getContext(), to), value);
  if (IsFloat(to)) return IsSignedInt(from) ? b.CreateSIToFP(value, type) : b.CreateUIToFP(value, type);
  return b.CreateIntCast(value, type, IsSignedInt(from));
}

}  // namespace

llvm::Value* EmitCast(const EmitContext& context, DType from, DType to, llvm::Value* value, bool short_nans) {
  if (from == to) return value;
  if (IsFloat8(from) || IsFloat8(to) || IsComplex(from) || IsComplex(to)) return nullptr;
  if (IsLowPrecisionFloat(to)) {
    llvm::Value* wide = EmitCast(context, from, DType::kFloat32, value);
    return to == DType::kFloat16 ? FloatToHalf(context, wide) : FloatToBfloat16(context, wide, short_nans);
  }
  if (IsLowPrecisionFloat(from)) {
    llvm::Value* wide = from == DType::kFloat16 ? HalfToFloat(context, value) : Bfloat16ToFloat(context, value);
    return EmitCast(context, DType::kFloat32, to, wide);
  }
  llvm::IRBuilderBase& b = context.b;
  if (to == DType::kBool) return ToBool(b, from, value);
  if (!IsFloat(from)) return FromInt(b, from, to, value);
  if (IsFloat(to)) return b.CreateFPCast(value, TypeLike(RegisterType(b.getContext(), to), value));
  return FloatToInt(b, to, value);
}

llvm::Value* EmitBitcast(const EmitContext& context, DType from, DType to, llvm::Value* value) {
  if (from == to) return value;
  return context.b.CreateBitCast(value, TypeLike(RegisterType(context.b.getContext(), to), value));
}

}  // namespace kiln::codegen
