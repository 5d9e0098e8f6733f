#include "compiler/codegen/cpu/object.h"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cpu/machine.h"
#include "compiler/codegen/cpu/passes.h"
#include "compiler/codegen/cpu/symbol.h"
#include "compiler/codegen/cpu/target.h"
#include "compiler/codegen/emit.h"

namespace kiln {
namespace {

// The context owns the module's types and goes last.
struct Compilation {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> module;
};

void SetAttributes(const CpuMachine& machine, llvm::Module& module) {
  const std::string width = absl::StrCat(machine.vector_bytes * 8);
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    function.addFnAttr("target-cpu", llvm::StringRef(machine.name.data(), machine.name.size()));
    function.addFnAttr("prefer-vector-width", width);  // else x86-64-v4 prefers 256 bits
    function.addFnAttr("no-builtins");                 // no memset or memcpy made of loops: nothing may be called
  }
}

absl::Status Verify(const llvm::Module& module) {
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (llvm::verifyModule(module, &stream)) return absl::InternalError(absl::StrCat("LLVM verifier: ", stream.str()));
  return absl::OkStatus();
}

// Emits and verifies.
absl::StatusOr<std::unique_ptr<Compilation>> Emit(const loop::Kernel& kernel, std::string_view symbol,
                                                  std::string_view target, bool keep_names) {
  if (absl::Status status = codegen::CheckSymbol(symbol); !status.ok()) return status;
  const CpuMachine* machine = FindCpuMachine(target);
  if (machine == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("target ", std::string(target), " is not a CPU target"));
  }
  auto result = std::make_unique<Compilation>();
  absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> target_machine = codegen::MakeTargetMachine(*machine);
  if (!target_machine.ok()) return target_machine.status();
  result->machine = *std::move(target_machine);
  result->context.setDiscardValueNames(!keep_names);
  result->module = std::make_unique<llvm::Module>("kernel", result->context);
  result->module->setTargetTriple(result->machine->getTargetTriple().str());
  result->module->setDataLayout(result->machine->createDataLayout());
  const EmitTarget emit{.fma = machine->fma,
                        .half_conversion = machine->half_conversion,
                        .masked_access_bytes = machine->masked_access_bytes,
                        .masked_gather_bytes = machine->masked_gather_bytes};
  absl::StatusOr<llvm::Function*> function = EmitKernel(kernel, symbol, emit, *result->module);
  if (!function.ok()) return function.status();
  SetAttributes(*machine, *result->module);
  if (absl::Status status = Verify(*result->module); !status.ok()) return status;
  return result;
}

absl::StatusOr<std::string> Generate(const loop::Kernel& kernel, std::string_view symbol, std::string_view target,
                                     llvm::CodeGenFileType type) {
  absl::StatusOr<std::unique_ptr<Compilation>> compilation = Emit(kernel, symbol, target, /*keep_names=*/false);
  if (!compilation.ok()) return compilation.status();
  llvm::Module& module = *(*compilation)->module;
  codegen::RunPasses(module, *(*compilation)->machine);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if ((*compilation)->machine->addPassesToEmitFile(passes, stream, nullptr, type)) {
    return absl::InternalError("LLVM cannot write this file type");
  }
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace

absl::StatusOr<std::string> CompileObject(const loop::Kernel& kernel, std::string_view symbol,
                                          std::string_view target) {
  return Generate(kernel, symbol, target, llvm::CodeGenFileType::ObjectFile);
}

absl::StatusOr<std::string> AssemblyText(const loop::Kernel& kernel, std::string_view symbol, std::string_view target) {
  return Generate(kernel, symbol, target, llvm::CodeGenFileType::AssemblyFile);
}

absl::StatusOr<std::string> LlvmText(const loop::Kernel& kernel, std::string_view symbol, std::string_view target,
                                     LlvmStage stage) {
  absl::StatusOr<std::unique_ptr<Compilation>> compilation = Emit(kernel, symbol, target, /*keep_names=*/true);
  if (!compilation.ok()) return compilation.status();
  llvm::Module& module = *(*compilation)->module;
  if (stage == LlvmStage::kOptimized) codegen::RunPasses(module, *(*compilation)->machine);
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return stream.str();
}

}  // namespace kiln
