#include "compiler/codegen/cpu/object.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <thread>

#include "compiler/codegen/cpu/machine.h"
#include "compiler/loop/mutate.h"
#include "compiler/loop/text.h"

namespace kiln {
namespace {

constexpr char kText[] = R"(kernel {
  sizes s0 in [0, inf)
  buffer b0: f32[s0] read
  buffer b1: bf16[s0] write
  buffer b2: f32[1] write
  parallel i0 in 0..1 grain 1 {
    v0: f32 = const 0x0p+0
    reduce (v1): (f32) over vector i1 in 0..s0 width 16 accumulators 4 init (v0) {
      v2: f32 = load b0[i1]
      yield v2
    } combine (v3), (v4) {
      v5: f32 = add v3, v4
      yield v5
    }
    store b2[0] = v1
    vector i2 in 0..s0 width 16 {
      v6: f32 = load b0[i2]
      v7: f32 = rem v6, v1
      v8: bf16 = cast v7
      store b1[i2] = v8
    }
  }
}
)";

std::string Compile(std::string_view target) {
  const auto kernel = loop::ParseKernel(kText);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  const auto object = CompileObject(*kernel, "k_0123456789abcdef", target);
  EXPECT_TRUE(object.ok()) << object.status();
  return object.value_or("");
}

TEST(CompileObject, IsDeterministicInAnyThreadAndOrder) {
  for (const CpuMachine& machine : kCpuMachines) {
    const std::string first = Compile(machine.name);
    EXPECT_EQ(first.substr(0, 4), "\177ELF");
    for (const CpuMachine& other : kCpuMachines) Compile(other.name);
    std::string second;
    std::thread([&] { second = Compile(machine.name); }).join();
    EXPECT_TRUE(first == second);
    EXPECT_EQ(first.find(std::filesystem::current_path().string()), std::string::npos);
  }
}

TEST(CompileObject, OneKernelManyCompilations) {
  const auto kernel = loop::ParseKernel(kText);
  ASSERT_TRUE(kernel.ok());
  const auto first = CompileObject(*kernel, "k", "x86-64-v3");
  const auto second = CompileObject(*kernel, "k", "x86-64-v3");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(*first == *second);
}

TEST(CompileObject, RefusesTargetsAndSymbolsThatAreNone) {
  const auto kernel = loop::ParseKernel(kText);
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(CompileObject(*kernel, "k", "sm_90").status(),
            absl::InvalidArgumentError("target sm_90 is not a CPU target"));
  EXPECT_EQ(CompileObject(*kernel, "k", "x86-64-v4 ").status().code(), absl::StatusCode::kInvalidArgument);
  for (const char* symbol : {"", "1k", "k;", "k k", "k\n"}) {
    EXPECT_EQ(CompileObject(*kernel, symbol, "x86-64-v3").status(),
              absl::InvalidArgumentError("symbol: not a C identifier"));
  }
}

// The statements of a kernel numbered by their lines in its text, from 0.
void NumberByLine(loop::Kernel& kernel) {
  std::vector<const loop::Stmt*> lines;
  loop::ToText(kernel, lines);
  loop::Walk(kernel.body, [&](loop::Stmt& stmt) {
    stmt.origin = static_cast<uint32_t>(std::ranges::find(lines, &stmt) - lines.begin());
  });
}

// The origins of the lines that hold `part`.
std::set<uint32_t> OriginsOf(const TracedText& text, std::string_view part) {
  std::set<uint32_t> origins;
  std::istringstream in(text.text);
  size_t number = 0;
  for (std::string line; std::getline(in, line); ++number) {
    if (line.find(part) != std::string::npos) origins.insert(text.origins[number]);
  }
  return origins;
}

TEST(TraceCode, IsTheCodeWithTheOriginOfEachLine) {
  for (const CpuMachine& machine : kCpuMachines) {
    auto kernel = loop::ParseKernel(kText);
    ASSERT_TRUE(kernel.ok());
    NumberByLine(*kernel);
    const auto code = TraceCode(*kernel, "k", machine.name);
    ASSERT_TRUE(code.ok()) << code.status();
    EXPECT_EQ(code->llvm.text, *LlvmText(*kernel, "k", machine.name, LlvmStage::kOptimized));
    EXPECT_EQ(code->assembly.text, *AssemblyText(*kernel, "k", machine.name));
    EXPECT_EQ(code->llvm.origins.size(), std::ranges::count(code->llvm.text, '\n'));
    EXPECT_EQ(code->assembly.origins.size(), std::ranges::count(code->assembly.text, '\n'));
    EXPECT_EQ(OriginsOf(code->llvm, "fadd"), std::set<uint32_t>{11});  // v5 = add
    EXPECT_EQ(OriginsOf(code->llvm, "define"), std::set<uint32_t>{loop::kNone});
    EXPECT_TRUE(OriginsOf(code->assembly, "addps\t").contains(11));
    EXPECT_EQ(OriginsOf(code->assembly, ".globl"), std::set<uint32_t>{loop::kNone});
  }
}

TEST(CompileObject, UnknownVariablesAreInternalErrors) {
  loop::Kernel kernel;
  loop::For outer{.axis = {.id = 0, .extent = kernel.syms->Const(1), .kind = loop::AxisKind::kParallel}, .body = {}};
  kernel.num_axes = 1;
  kernel.num_values = 1;
  outer.body.push_back(
      {loop::Let{.result = 0, .type = DType::kInt64, .op = loop::Op::kIndex, .index = kernel.syms->Size(3)}});
  kernel.body.push_back({std::move(outer)});
  EXPECT_EQ(CompileObject(kernel, "k", "x86-64-v3").status(), absl::InternalError("s3 is not a parameter"));
}

TEST(Text, ShowsEachStage) {
  const auto kernel = loop::ParseKernel(kText);
  ASSERT_TRUE(kernel.ok());
  const auto emitted = LlvmText(*kernel, "k", "x86-64-v4", LlvmStage::kEmitted);
  const auto optimized = LlvmText(*kernel, "k", "x86-64-v4", LlvmStage::kOptimized);
  const auto assembly = AssemblyText(*kernel, "k", "x86-64-v4");
  ASSERT_TRUE(emitted.ok() && optimized.ok() && assembly.ok());
  EXPECT_NE(emitted->find("define void @k(ptr"), std::string::npos);
  EXPECT_LT(optimized->size(), emitted->size());
  EXPECT_NE(assembly->find("k:"), std::string::npos);
}

TEST(Machine, TableHasTheThreeLevels) {
  EXPECT_EQ(FindCpuMachine("x86-64-v3")->vector_bytes, 32);
  EXPECT_EQ(FindCpuMachine("x86-64-v4")->vector_registers, 32);
  EXPECT_FALSE(FindCpuMachine("x86-64-v2")->fma);
  EXPECT_EQ(FindCpuMachine("x86-64"), nullptr);
}

}  // namespace
}  // namespace kiln
