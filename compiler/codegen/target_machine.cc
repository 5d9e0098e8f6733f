#include "compiler/codegen/target_machine.h"

#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/TargetParser/Triple.h>

#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

// Only the back ends in use: InitializeAllTargets would name every one that LLVM was built with.
extern "C" {
void LLVMInitializeX86TargetInfo();
void LLVMInitializeX86Target();
void LLVMInitializeX86TargetMC();
void LLVMInitializeX86AsmPrinter();
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace kiln::codegen {
namespace {

struct Architecture {
  const char* triple;
  const char* features;
  std::optional<llvm::Reloc::Model> relocations;
};

constexpr Architecture kX86 = {"x86_64-unknown-linux-gnu", "", llvm::Reloc::PIC_};
// The oldest version of PTX that has all of the targets: CUDA 11.8's.
constexpr Architecture kPtx = {"nvptx64-nvidia-cuda", "+ptx78", std::nullopt};

void InitializeX86() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
}

void InitializePtx() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> Make(const Architecture& architecture, std::string_view name) {
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(architecture.triple, error);
  if (target == nullptr) return absl::InternalError(absl::StrCat("LLVM: ", error));
  const std::string cpu(name);
  // Asked of a default subtarget: createTargetMachine() with a bad name complains on stderr and goes on.
  const std::unique_ptr<llvm::MCSubtargetInfo> any(target->createMCSubtargetInfo(architecture.triple, "", ""));
  if (any == nullptr || !any->isCPUStringValid(cpu)) {
    return absl::InvalidArgumentError(absl::StrCat("target ", cpu, ": no such CPU"));
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> result(
      target->createTargetMachine(architecture.triple, cpu, architecture.features, options, architecture.relocations,
                                  std::nullopt, llvm::CodeGenOptLevel::Default));
  if (result == nullptr) return absl::InternalError(absl::StrCat("LLVM: no target machine for ", cpu));
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeTargetMachine(const CpuMachine& machine) {
  InitializeX86();
  return Make(kX86, machine.name);
}

absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeTargetMachine(const CudaMachine& machine) {
  InitializePtx();
  return Make(kPtx, machine.name);
}

}  // namespace kiln::codegen
