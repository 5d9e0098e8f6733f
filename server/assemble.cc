#include "server/assemble.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/run_tool.h"

namespace kiln {
namespace {

constexpr char kPtx[] = "kernel.ptx", kCubin[] = "kernel.cubin";
constexpr size_t kMaxMessage = 2000;

// What ptxas says to an architecture that is newer, or much older, than it.
bool IsUnknownArch(const ToolResult& result) {
  return absl::StrContains(result.output, "is not defined for option 'gpu-name'") ||
         absl::StrContains(result.output, "Unsupported gpu architecture");
}

}  // namespace

absl::StatusOr<v1::AssembleResult> Assemble(const v1::AssembleJob& job) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  const auto remove = absl::MakeCleanup([&] {
    std::error_code ignored;
    std::filesystem::remove(folder / kPtx, ignored);
    std::filesystem::remove(folder / kCubin, ignored);
  });
  std::ofstream ptx(folder / kPtx, std::ios::binary);
  ptx.write(job.ptx().data(), static_cast<std::streamsize>(job.ptx().size()));
  ptx.close();
  if (error || !ptx) return absl::UnavailableError(absl::StrCat("cannot write ", (folder / kPtx).string()));
  for (const std::string& arch : job.archs()) {
    const absl::StatusOr<ToolResult> result =
        RunTool({job.ptxas(), absl::StrCat("--gpu-name=", arch), "-O3", "-o", kCubin, kPtx}, folder.string());
    if (!result.ok()) return result.status();
    if (result->exit_status != 0 && IsUnknownArch(*result)) continue;
    if (result->exit_status != 0) {
      return absl::InternalError(absl::StrCat("ptxas for ", arch, " ended with status ", result->exit_status, ": ",
                                              result->output.substr(0, kMaxMessage)));
    }
    std::ifstream cubin(folder / kCubin, std::ios::binary);
    v1::AssembleResult assembled;
    assembled.set_cubin(std::string(std::istreambuf_iterator<char>(cubin), std::istreambuf_iterator<char>()));
    if (assembled.cubin().empty()) return absl::InternalError(absl::StrCat("ptxas for ", arch, " made no cubin"));
    return assembled;
  }
  return v1::AssembleResult();
}

}  // namespace kiln
