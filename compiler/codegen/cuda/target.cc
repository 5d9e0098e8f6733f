#include "compiler/codegen/cuda/target.h"

#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/TargetParser/Triple.h>

#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"

// Only the back end in use: InitializeAllTargets would name every one that LLVM was built with.
extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace kiln::codegen {
namespace {

constexpr char kTriple[] = "nvptx64-nvidia-cuda";
// The oldest version of PTX that has all of the targets: CUDA 11.8's.
constexpr char kFeatures[] = "+ptx78";

void InitializeNVPTX() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeTargetMachine(const CudaMachine& machine) {
  InitializeNVPTX();
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(kTriple, error);
  if (target == nullptr) return absl::InternalError(absl::StrCat("LLVM: ", error));
  const std::string cpu(machine.name);
  // Asked of a default subtarget: createTargetMachine() with a bad name complains on stderr and goes on.
  const std::unique_ptr<llvm::MCSubtargetInfo> any(target->createMCSubtargetInfo(kTriple, "", ""));
  if (any == nullptr || !any->isCPUStringValid(cpu)) {
    return absl::InvalidArgumentError(absl::StrCat("target ", cpu, ": no such CPU"));
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> result(target->createTargetMachine(
      kTriple, cpu, kFeatures, options, std::nullopt, std::nullopt, llvm::CodeGenOptLevel::Default));
  if (result == nullptr) return absl::InternalError(absl::StrCat("LLVM: no target machine for ", cpu));
  return result;
}

}  // namespace kiln::codegen
