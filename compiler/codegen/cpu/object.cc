#include "compiler/codegen/cpu/object.h"

#include <llvm/IR/AssemblyAnnotationWriter.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/FormattedStream.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cpu/machine.h"
#include "compiler/codegen/emit.h"
#include "compiler/codegen/passes.h"
#include "compiler/codegen/symbol.h"
#include "compiler/codegen/target_machine.h"

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

struct EmitFor {
  bool reading = false;  // values keep their names
  bool tracing = false;  // instructions know their statements
};

// Emits and verifies.
absl::StatusOr<std::unique_ptr<Compilation>> Emit(const loop::Kernel& kernel, std::string_view symbol,
                                                  std::string_view target, EmitFor purpose = {}) {
  if (absl::Status status = codegen::CheckSymbol(symbol); !status.ok()) return status;
  const CpuMachine* machine = FindCpuMachine(target);
  if (machine == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("target ", std::string(target), " is not a CPU target"));
  }
  auto result = std::make_unique<Compilation>();
  absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> target_machine = codegen::MakeTargetMachine(*machine);
  if (!target_machine.ok()) return target_machine.status();
  result->machine = *std::move(target_machine);
  result->context.setDiscardValueNames(!purpose.reading);
  result->module = std::make_unique<llvm::Module>("kernel", result->context);
  result->module->setTargetTriple(result->machine->getTargetTriple().str());
  result->module->setDataLayout(result->machine->createDataLayout());
  const EmitTarget emit{.fma = machine->fma,
                        .half_conversion = machine->half_conversion,
                        .streaming_stores = true,
                        .masked_access_bytes = machine->masked_access_bytes,
                        .masked_gather_bytes = machine->masked_gather_bytes};
  absl::StatusOr<llvm::Function*> function = EmitKernel(kernel, symbol, emit, *result->module, purpose.tracing);
  if (!function.ok()) return function.status();
  SetAttributes(*machine, *result->module);
  if (absl::Status status = Verify(*result->module); !status.ok()) return status;
  return result;
}

// From the module as the passes leave it; code generation changes it further.
absl::StatusOr<std::string> Generate(Compilation& compilation, llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (compilation.machine->addPassesToEmitFile(passes, stream, nullptr, type)) {
    return absl::InternalError("LLVM cannot write this file type");
  }
  passes.run(*compilation.module);
  return std::string(bytes.begin(), bytes.end());
}

absl::StatusOr<std::string> Generate(const loop::Kernel& kernel, std::string_view symbol, std::string_view target,
                                     llvm::CodeGenFileType type, StageTimes* times = nullptr) {
  std::optional<StageTimer> timer(std::in_place, times, "emit");
  absl::StatusOr<std::unique_ptr<Compilation>> compilation = Emit(kernel, symbol, target);
  if (!compilation.ok()) return compilation.status();
  timer.emplace(times, "optimize");
  codegen::RunPasses(*(*compilation)->module, *(*compilation)->machine);
  timer.emplace(times, "assemble");
  return Generate(**compilation, type);
}

std::string Print(const llvm::Module& module, llvm::AssemblyAnnotationWriter* writer = nullptr) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, writer);
  return stream.str();
}

// Writes nothing, and notes on which line each instruction stands.
class LineNoter : public llvm::AssemblyAnnotationWriter {
 public:
  void emitInstructionAnnot(const llvm::Instruction*, llvm::formatted_raw_ostream& out) override {
    lines.push_back(out.getLine());
  }
  std::vector<unsigned> lines;
};

// The text of `plain`, with the origins that the same instructions have in `traced`.
absl::StatusOr<TracedText> TraceLlvm(const llvm::Module& plain, const llvm::Module& traced) {
  LineNoter noter;
  TracedText result{Print(plain, &noter), {}};
  result.origins.assign(std::ranges::count(result.text, '\n'), loop::kNone);
  size_t next = 0;
  for (const llvm::Function& function : traced) {
    for (const llvm::Instruction& instruction : llvm::instructions(function)) {
      if (next == noter.lines.size()) return absl::InternalError("debug locations add instructions");
      const llvm::DebugLoc& location = instruction.getDebugLoc();
      const unsigned line = noter.lines[next++];
      if (location && location.getLine() != 0) result.origins[line] = location.getLine() - 1;
    }
  }
  if (next != noter.lines.size()) return absl::InternalError("debug locations drop instructions");
  return result;
}

// Takes the lines that only debug locations need out of the assembly, and reads them.
TracedText TraceAssembly(const std::string& assembly) {
  TracedText result;
  uint32_t origin = loop::kNone;
  std::istringstream in(assembly);
  for (std::string line; std::getline(in, line);) {
    unsigned file = 0, number = 0;
    if (std::sscanf(line.c_str(), "\t.loc\t%u %u", &file, &number) == 2) {
      origin = number == 0 ? loop::kNone : number - 1;
      continue;
    }
    if (std::sscanf(line.c_str(), "\t.file\t%u", &file) == 1 || line.starts_with("\t.cfi_")) continue;
    if (line.starts_with(".Ltmp") || line.starts_with(".Lfunc_begin")) continue;
    if (line.starts_with(".Lfunc_end")) origin = loop::kNone;
    const bool instruction = line.size() > 1 && line[0] == '\t' && line[1] != '.' && line[1] != '#';
    absl::StrAppend(&result.text, line, "\n");
    result.origins.push_back(instruction ? origin : loop::kNone);
  }
  return result;
}

}  // namespace

absl::StatusOr<std::string> CompileObject(const loop::Kernel& kernel, std::string_view symbol, std::string_view target,
                                          StageTimes* times) {
  return Generate(kernel, symbol, target, llvm::CodeGenFileType::ObjectFile, times);
}

absl::StatusOr<std::string> AssemblyText(const loop::Kernel& kernel, std::string_view symbol, std::string_view target) {
  return Generate(kernel, symbol, target, llvm::CodeGenFileType::AssemblyFile);
}

absl::StatusOr<std::string> LlvmText(const loop::Kernel& kernel, std::string_view symbol, std::string_view target,
                                     LlvmStage stage) {
  absl::StatusOr<std::unique_ptr<Compilation>> compilation = Emit(kernel, symbol, target, {.reading = true});
  if (!compilation.ok()) return compilation.status();
  llvm::Module& module = *(*compilation)->module;
  if (stage == LlvmStage::kOptimized) codegen::RunPasses(module, *(*compilation)->machine);
  return Print(module);
}

absl::StatusOr<TracedCode> TraceCode(const loop::Kernel& kernel, std::string_view symbol, std::string_view target) {
  absl::StatusOr<std::unique_ptr<Compilation>> plain = Emit(kernel, symbol, target, {.reading = true});
  if (!plain.ok()) return plain.status();
  codegen::RunPasses(*(*plain)->module, *(*plain)->machine);
  absl::StatusOr<std::unique_ptr<Compilation>> traced = Emit(kernel, symbol, target, {.tracing = true});
  if (!traced.ok()) return traced.status();
  codegen::RunPasses(*(*traced)->module, *(*traced)->machine);
  absl::StatusOr<TracedText> ir = TraceLlvm(*(*plain)->module, *(*traced)->module);
  if (!ir.ok()) return ir.status();
  const absl::StatusOr<std::string> assembly = Generate(**traced, llvm::CodeGenFileType::AssemblyFile);
  if (!assembly.ok()) return assembly.status();
  return TracedCode{*std::move(ir), TraceAssembly(*assembly)};
}

}  // namespace kiln
