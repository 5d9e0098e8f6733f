#include "compiler/codegen/emit_types.h"

#include <llvm/ADT/APFloat.h>
#include <llvm/ADT/APInt.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>

namespace kiln::codegen {

llvm::Type* RegisterType(llvm::LLVMContext& context, DType type) {
  if (type == DType::kBool) return llvm::Type::getInt1Ty(context);
  if (type == DType::kFloat32) return llvm::Type::getFloatTy(context);
  if (type == DType::kFloat64) return llvm::Type::getDoubleTy(context);
  return llvm::Type::getIntNTy(context, static_cast<unsigned>(ByteSize(type)) * 8);
}

llvm::Type* MemoryType(llvm::LLVMContext& context, DType type) {
  return type == DType::kBool ? llvm::Type::getInt8Ty(context) : RegisterType(context, type);
}

llvm::Type* WithLanes(llvm::Type* element, unsigned lanes) {
  return lanes == 1 ? element : llvm::FixedVectorType::get(element, lanes);
}

unsigned LanesOf(const llvm::Value* value) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return vector == nullptr ? 1 : vector->getNumElements();
}

llvm::Type* TypeLike(llvm::Type* element, const llvm::Value* like) { return WithLanes(element, LanesOf(like)); }

llvm::Value* Splat(llvm::IRBuilderBase& b, llvm::Value* scalar, unsigned lanes) {
  return lanes == 1 ? scalar : b.CreateVectorSplat(lanes, scalar);
}

llvm::Constant* Iota(llvm::Type* element, unsigned lanes, int64_t step) {
  llvm::SmallVector<llvm::Constant*, 64> elements;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const uint64_t value = static_cast<uint64_t>(step) * lane;
    elements.push_back(llvm::ConstantInt::get(element, value, /*IsSigned=*/true));
  }
  return lanes == 1 ? elements[0] : llvm::ConstantVector::get(elements);
}

llvm::Value* FromMemory(llvm::IRBuilderBase& b, DType type, llvm::Value* value) {
  return type == DType::kBool ? b.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType())) : value;
}

llvm::Value* ToMemory(llvm::IRBuilderBase& b, DType type, llvm::Value* value) {
  return type == DType::kBool ? b.CreateZExt(value, TypeLike(b.getInt8Ty(), value)) : value;
}

llvm::Constant* ConstantBits(llvm::LLVMContext& context, DType type, uint64_t bits) {
  llvm::Type* t = RegisterType(context, type);
  if (type == DType::kFloat32) {
    return llvm::ConstantFP::get(t, llvm::APFloat(llvm::APFloat::IEEEsingle(), llvm::APInt(64, bits).trunc(32)));
  }
  if (type == DType::kFloat64) {
    return llvm::ConstantFP::get(t, llvm::APFloat(llvm::APFloat::IEEEdouble(), llvm::APInt(64, bits)));
  }
  return llvm::ConstantInt::get(t, llvm::APInt(64, bits).trunc(t->getIntegerBitWidth()));
}

}  // namespace kiln::codegen
