#include "compiler/codegen/cuda/ptx.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cuda/libdevice.h"
#include "compiler/codegen/cuda/machine.h"
#include "compiler/codegen/emit.h"
#include "compiler/codegen/passes.h"
#include "compiler/codegen/symbol.h"
#include "compiler/codegen/target_machine.h"
#include "compiler/loop/mutate.h"

namespace kiln {
namespace {

// Entries of PTX have a calling convention of their own, and their launch shape as metadata.
void MakeEntry(llvm::Function& function, uint32_t threads) {
  function.setCallingConv(llvm::CallingConv::PTX_Kernel);
  llvm::LLVMContext& context = function.getContext();
  llvm::Type* i32 = llvm::Type::getInt32Ty(context);
  llvm::NamedMDNode* annotations = function.getParent()->getOrInsertNamedMetadata("nvvm.annotations");
  const auto annotate = [&](llvm::StringRef name, uint32_t value) {
    annotations->addOperand(
        llvm::MDNode::get(context, {llvm::ValueAsMetadata::get(&function), llvm::MDString::get(context, name),
                                    llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(i32, value))}));
  };
  annotate("kernel", 1);
  annotate("reqntidx", threads);
  annotate("reqntidy", 1);
  annotate("reqntidz", 1);
}

absl::Status CheckSharedMemory(const loop::Kernel& kernel) {
  int64_t bytes = 0;
  for (const loop::Buffer& buffer : kernel.buffers) {
    if (buffer.space == loop::Space::kShared)
      bytes += kernel.syms->AsConst(buffer.size).value_or(0) * ByteSize(buffer.dtype);
  }
  if (bytes <= kStaticSharedBytes) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(bytes, " bytes of shared memory, of ", kStaticSharedBytes));
}

}  // namespace

bool LibdeviceHas(loop::Op function) { return !codegen::LibdeviceSymbol(function, DType::kFloat32).empty(); }

absl::StatusOr<std::string> CompilePtx(const loop::Kernel& kernel, std::string_view symbol, std::string_view target,
                                       std::string_view libdevice) {
  if (absl::Status status = codegen::CheckSymbol(symbol); !status.ok()) return status;
  const CudaTarget* device = FindCudaTarget(target);
  if (device == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("target ", std::string(target), " is not a CUDA target"));
  }
  if (absl::Status status = CheckSharedMemory(kernel); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> target_machine = codegen::MakeTargetMachine(*device->machine);
  if (!target_machine.ok()) return target_machine.status();
  llvm::LLVMContext context;
  context.setDiscardValueNames(true);
  llvm::Module module("kernel", context);
  module.setTargetTriple((*target_machine)->getTargetTriple().str());
  module.setDataLayout((*target_machine)->createDataLayout());
  for (const bool aligned : {false, true}) {
    const EmitTarget emit{.bfloat_pairs = true,
                          .simt = true,
                          .function_symbol = libdevice.empty() ? nullptr : codegen::LibdeviceSymbol,
                          .aligned_buffers = aligned,
                          .masked_access_bytes = 16,
                          .masked_gather_bytes = 16};
    const std::string name = absl::StrCat(std::string(symbol), aligned ? std::string(kAlignedSuffix) : "");
    absl::StatusOr<llvm::Function*> function = EmitKernel(kernel, name, emit, module);
    if (!function.ok()) return function.status();
    MakeEntry(**function, loop::BlockThreads(kernel));
  }
  if (!libdevice.empty()) {
    if (absl::Status status = codegen::LinkLibdevice(libdevice, module); !status.ok()) return status;
  }
  std::string message;
  llvm::raw_string_ostream errors(message);
  if (llvm::verifyModule(module, &errors)) return absl::InternalError(absl::StrCat("LLVM verifier: ", errors.str()));
  codegen::RunPasses(module, **target_machine, {.registers = true, .inline_calls = !libdevice.empty()});
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if ((*target_machine)->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile)) {
    return absl::InternalError("LLVM cannot write PTX");
  }
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace kiln
