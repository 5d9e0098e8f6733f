// kiln-opt: the compiler's stages by hand.
//
//   kiln-opt FILE --stop-after=graph|passes|fuse|loop|llvm|asm|plan [--target=x86-64-v3] [--verify]
//   kiln-opt FILE --interp [--sizes=8,16]
//
// FILE is a graph (.kir text), a recorded request (binary v1.CompileRequest, or the first of a record file), or a
// kernel (loop text);
// "-" is the standard input.

#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/cpu/object.h"
#include "compiler/codegen/cuda/machine.h"
#include "compiler/codegen/cuda/ptx.h"
#include "compiler/compile/compile.h"
#include "compiler/compile/functions.h"
#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/loop/interp.h"
#include "compiler/loop/mutate.h"
#include "compiler/loop/simplify.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"
#include "compiler/lower/alias.h"
#include "compiler/lower/nest.h"
#include "compiler/mathlib/expand.h"
#include "compiler/schedule/fuse.h"
#include "compiler/schedule/lower_step.h"
#include "compiler/schedule/traffic.h"
#include "compiler/tools/program.h"

namespace kiln {
namespace {

struct Flags {
  std::string file;
  std::string stop_after = "loop";
  std::string target = "x86-64-v3";
  std::string libdevice;
  bool verify = false;
  bool interp = false;
  std::optional<double> memory_budget;
  std::vector<int64_t> sizes;
};

// Runs a kernel over zeros and prints how many elements of each buffer it read and wrote.
absl::Status Interpret(const loop::Kernel& kernel, const Flags& flags) {
  std::vector<std::string> memory;
  std::vector<loop::BufferArg> args;
  for (const loop::Buffer& buffer : kernel.buffers) {
    if (buffer.space != loop::Space::kGlobal) continue;
    absl::StatusOr<int64_t> elements = kernel.syms->Eval(buffer.size, [&](Var var) -> std::optional<int64_t> {
      if (var.kind != VarKind::kSize || var.index >= flags.sizes.size()) return std::nullopt;
      return flags.sizes[var.index];
    });
    if (!elements.ok()) return elements.status();
    if (*elements > int64_t{1} << 30) return absl::ResourceExhaustedError("a buffer has more than 2^30 elements");
    memory.emplace_back(std::max<int64_t>(*elements, 0) * ByteSize(buffer.dtype), '\0');
    args.push_back({memory.back().data(), *elements});
  }
  for (size_t i = 0; i < args.size(); ++i) args[i].data = memory[i].data();
  absl::StatusOr<loop::RunStats> stats = loop::Interpret(kernel, args, flags.sizes);
  if (!stats.ok()) return stats.status();
  for (size_t i = 0; i < args.size(); ++i) {
    std::cout << "b" << i << ": reads " << stats->reads[i] << " writes " << stats->writes[i] << "\n";
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ShowPtx(loop::Kernel& kernel, const Flags& flags) {
  std::string libdevice;
  if (!flags.libdevice.empty()) {
    absl::StatusOr<std::string> read = ReadFile(flags.libdevice);
    if (!read.ok()) return read.status();
    libdevice = *std::move(read);
  }
  const auto keep = [&](loop::Op op) { return !libdevice.empty() && LibdeviceHas(op); };
  if (absl::Status status = mathlib::Expand(kernel, keep); !status.ok()) return status;
  loop::Simplify(kernel);
  return CompilePtx(kernel, "k", flags.target, libdevice);
}

absl::Status ShowKernel(const loop::Kernel& given, const Flags& flags) {
  if (absl::Status status = loop::Verify(given); !status.ok()) return status;
  if (flags.interp) return Interpret(given, flags);
  if (flags.stop_after == "loop") {
    std::cout << loop::ToText(given);
    return absl::OkStatus();
  }
  loop::Kernel kernel = loop::Clone(given);
  absl::StatusOr<std::string> text;
  if (FindCudaTarget(flags.target) != nullptr) {
    if (flags.stop_after != "asm")
      return absl::InvalidArgumentError(absl::StrCat(flags.stop_after, " is not shown for ", flags.target, ": asm is"));
    text = ShowPtx(kernel, flags);
  } else if (absl::Status status = mathlib::Expand(kernel); !status.ok()) {
    return status;
  } else {
    text = flags.stop_after == "llvm" ? LlvmText(kernel, "k", flags.target, LlvmStage::kOptimized)
                                      : AssemblyText(kernel, "k", flags.target);
  }
  if (!text.ok()) return text.status();
  std::cout << *text;
  return absl::OkStatus();
}

void ShowGroups(const Graph& graph, std::span<const Group> groups, std::span<const Schedule> schedules) {
  static constexpr const char* kPlaces[] = {"full ", "outer ", "kept "};
  for (size_t g = 0; g < groups.size(); ++g) {
    std::cout << (g == 0 ? "# kernel: " : "# and: ") << schedules[g].ToString() << "\n";
    for (const GroupNode& node : groups[g].nodes) {
      std::cout << "#   " << kPlaces[static_cast<int>(node.place)] << node.phase << ": "
                << PrintNode(graph, graph.nodes()[node.node]) << "\n";
    }
  }
}

// "4096 of 256 threads: %0 %1 p0": the parallel axis, and what each global buffer is: a value or a partial result.
std::string LaunchText(const Graph& graph, const LoweredKernel& kernel) {
  std::string text =
      absl::StrCat(graph.syms().ToString(kernel.extent), " of ", loop::BlockThreads(kernel.kernel), " threads:");
  for (const KernelBuffer& buffer : kernel.buffers) {
    absl::StrAppend(&text, buffer.root == kNoValue ? " p" : " %",
                    buffer.root == kNoValue ? buffer.partial : buffer.root);
  }
  return text;
}

// Beside what the kernels would move if each node had one of its own.
absl::Status ShowTraffic(const Graph& graph, const Aliases& aliases, const Fusion& fusion) {
  const absl::StatusOr<Traffic> fused = KernelTraffic(graph, aliases, fusion);
  if (absl::IsUnimplemented(fused.status())) return absl::OkStatus();
  if (!fused.ok()) return fused.status();
  absl::StatusOr<Fusion> alone = Fuse(graph, aliases, {.group_nodes = 1, .bundle = false});
  if (!alone.ok()) return alone.status();
  const absl::StatusOr<Traffic> unfused = KernelTraffic(graph, aliases, *alone);
  if (!unfused.ok()) return unfused.status();
  std::cout << "# total: " << fused->nodes << " nodes in " << fused->steps << " steps move " << fused->bytes
            << " bytes, one by one " << unfused->bytes << "; " << fused->externals << " external calls\n";
  return absl::OkStatus();
}

absl::Status ShowKernels(const NamedGraph& function, const Flags& flags) {
  const Graph& graph = *function.graph;
  const std::optional<ScheduleTarget> target = FindScheduleTarget(flags.target);
  if (!target) return absl::InvalidArgumentError(absl::StrCat("unknown target ", flags.target));
  const Aliases aliases(graph);
  absl::StatusOr<Fusion> fusion = Fuse(graph, aliases, {.inputs_die = function.inputs_die});
  if (!fusion.ok()) return fusion.status();
  HostMemory memory(graph, aliases, *fusion);
  for (size_t s = 0; s < fusion->order.size(); ++s) {
    const FusedStep& step = fusion->order[s];
    if (step.kind == FusedStep::Kind::kExternal) {
      std::cout << "# external: " << PrintNode(graph, graph.nodes()[step.index]) << "\n";
      continue;
    }
    const std::span<const Group> groups = std::span(fusion->groups).subspan(step.index, step.count);
    absl::StatusOr<LoweredStep> lowered = LowerStep(graph, aliases, *fusion, step, *target, memory.During(s));
    if (!lowered.ok()) return lowered.status();
    memory.Note(lowered->reuse);
    ShowGroups(graph, groups, lowered->schedules);
    if (flags.stop_after == "fuse") continue;
    for (const LoweredKernel& kernel : lowered->kernels) {
      std::cout << "# launch: " << LaunchText(graph, kernel) << "\n";
      if (absl::Status status = ShowKernel(kernel.kernel, flags); !status.ok()) return status;
    }
  }
  return flags.stop_after == "fuse" ? ShowTraffic(graph, aliases, *fusion) : absl::OkStatus();
}

// " returns %2 %4"
std::string ReturnsText(const Graph& graph) {
  std::string text = " returns";
  for (const GraphOutput& output : graph.outputs()) {
    if (output.kind == GraphOutput::Kind::kValue) absl::StrAppend(&text, " %", output.value);
  }
  return text;
}

absl::Status ShowGraph(const Program& program, const Flags& flags) {
  if (flags.verify) {
    if (absl::Status status = VerifyGraph(*program.graph); !status.ok()) return status;
  }
  if (flags.stop_after == "graph") {
    std::cout << PrintGraph(*program.graph);
    return absl::OkStatus();
  }
  const absl::StatusOr<GraphFunctions> made = FunctionsOf(program, flags.verify);
  if (!made.ok()) return made.status();
  for (const NamedGraph& function : made->functions) {
    std::cout << "# function: " << function.name << ReturnsText(*function.graph) << "\n";
    if (flags.stop_after == "passes") {
      std::cout << PrintGraph(*function.graph);
    } else if (absl::Status status = ShowKernels(function, flags); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status ShowPlan(const v1::CompileRequest& request, const Flags& flags) {
  v1::PlanJob job;
  *job.mutable_request() = request;
  job.mutable_request()->mutable_target()->set_name(flags.target);
  job.set_build("kiln-opt");
  const absl::StatusOr<v1::PlanResult> plan = Plan(job);
  if (!plan.ok()) return plan.status();
  std::cout << plan->artifact().DebugString();
  return absl::OkStatus();
}

absl::Status Run(const Flags& flags) {
  const absl::StatusOr<std::string> bytes = ReadFile(flags.file);
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<Program> program = ReadProgram(*bytes);
  if (!program.ok()) return program.status();
  if (program->kernel) return ShowKernel(*program->kernel, flags);
  if (flags.memory_budget) program->request.mutable_options()->set_memory_budget(*flags.memory_budget);
  if (flags.stop_after == "plan") {
    if (!program->request.has_graph()) return absl::InvalidArgumentError("a plan is made of a recorded request only");
    return ShowPlan(program->request, flags);
  }
  return ShowGraph(*program, flags);
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  CLI::App app("Runs the compiler's stages on a graph, a kernel or a recorded request, and prints what they make.",
               "kiln-opt");
  kiln::Flags flags;
  app.add_option("file", flags.file, "a .kir graph, a loop kernel, or a recorded request")->required();
  app.add_option("--stop-after", flags.stop_after, "the last stage to run; its result is printed")
      ->check(CLI::IsMember({"graph", "passes", "fuse", "loop", "llvm", "asm", "plan"}))
      ->capture_default_str();
  app.add_option("--target", flags.target, "the target to compile for")->capture_default_str();
  app.add_option("--libdevice", flags.libdevice, "CUDA's libdevice.10.bc, for its functions instead of kiln's own");
  app.add_option("--memory-budget", flags.memory_budget, "the option memory_budget; else the request's");
  app.add_flag("--verify", flags.verify, "check every invariant of the graph");
  app.add_flag("--interp", flags.interp, "run each kernel in the loop interpreter and count its reads and writes");
  app.add_option("--sizes", flags.sizes, "values of the kernel's size parameters, for --interp")->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = kiln::Run(flags);
  if (status.ok()) return 0;
  std::cerr << "kiln-opt: " << std::string(status.message()) << "\n";
  return 1;
}
