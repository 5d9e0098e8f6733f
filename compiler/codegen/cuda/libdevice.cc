#include "compiler/codegen/cuda/libdevice.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/MemoryBuffer.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln::codegen {
namespace {

// Functions ask for what the compiler was told by __nvvm_reflect("__CUDA_FTZ") and the like: 0 is IEEE's answer to all.
void AnswerReflections(llvm::Module& module) {
  llvm::Function* reflect = module.getFunction("__nvvm_reflect");
  if (reflect == nullptr) return;
  for (llvm::User* user : llvm::make_early_inc_range(reflect->users())) {
    auto* call = llvm::cast<llvm::CallInst>(user);
    call->replaceAllUsesWith(llvm::ConstantInt::get(call->getType(), 0));
    call->eraseFromParent();
  }
  reflect->eraseFromParent();
}

}  // namespace

std::string LibdeviceSymbol(loop::Op op, DType type) {
  if (!loop::IsFunction(op) || op == loop::Op::kDigamma) return "";
  return absl::StrCat("__nv_", std::string(loop::Name(op)), type == DType::kFloat32 ? "f" : "");
}

absl::Status LinkLibdevice(std::string_view bitcode, llvm::Module& module) {
  const llvm::MemoryBufferRef buffer(llvm::StringRef(bitcode.data(), bitcode.size()), "libdevice");
  llvm::Expected<std::unique_ptr<llvm::Module>> library = llvm::parseBitcodeFile(buffer, module.getContext());
  if (!library) return absl::InvalidArgumentError(absl::StrCat("libdevice: ", llvm::toString(library.takeError())));
  (*library)->setTargetTriple(module.getTargetTriple());
  (*library)->setDataLayout(module.getDataLayout());
  for (const llvm::Function& function : module) {
    if (!function.isDeclaration() || !function.getName().starts_with("__nv_")) continue;
    const llvm::Function* found = (*library)->getFunction(function.getName());
    if (found == nullptr || found->isDeclaration() || found->getFunctionType() != function.getFunctionType())
      return absl::InvalidArgumentError(absl::StrCat("libdevice has no ", function.getName().str()));
  }
  if (llvm::Linker::linkModules(module, std::move(*library), llvm::Linker::LinkOnlyNeeded))
    return absl::InternalError("libdevice cannot be linked");
  for (llvm::Function& function : module) {
    if (function.isDeclaration() || function.getCallingConv() == llvm::CallingConv::PTX_Kernel) continue;
    function.setLinkage(llvm::GlobalValue::InternalLinkage);
    function.removeFnAttr("target-cpu");
    function.removeFnAttr("target-features");
    function.removeFnAttr(llvm::Attribute::NoInline);
    function.addFnAttr(llvm::Attribute::AlwaysInline);
  }
  for (llvm::GlobalVariable& global : module.globals()) {
    if (!global.isDeclaration()) global.setLinkage(llvm::GlobalValue::InternalLinkage);
  }
  AnswerReflections(module);
  return absl::OkStatus();
}

}  // namespace kiln::codegen
