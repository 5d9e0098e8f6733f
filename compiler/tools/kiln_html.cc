// kiln-html: what the compiler makes of a program, as one HTML page: the graph, and of each kernel the loop nest, LLVM
// IR and assembly, linked by origin.
//
//   kiln-html FILE > page.html
#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compiler/tools/listing.h"
#include "compiler/tools/page.h"
#include "compiler/tools/program.h"

namespace kiln {
namespace {

struct Flags {
  std::string file;
  std::string output = "-";
  std::string target = "x86-64-v3";
  std::optional<double> memory_budget;
};

absl::Status Run(const Flags& flags) {
  const absl::StatusOr<std::string> bytes = ReadFile(flags.file);
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<Program> program = ReadProgram(*bytes);
  if (!program.ok()) return program.status();
  if (flags.memory_budget) program->request.mutable_options()->set_memory_budget(*flags.memory_budget);
  const absl::StatusOr<Listing> listing = List(*program, flags.target);
  if (!listing.ok()) return listing.status();
  const std::string page = HtmlPage(*listing, flags.file == "-" ? "kiln" : flags.file);
  if (flags.output == "-") {
    std::cout << page << std::flush;
    return std::cout ? absl::OkStatus() : absl::UnknownError("the standard output cannot be written");
  }
  std::ofstream out(flags.output, std::ios::binary);
  out << page << std::flush;
  return out ? absl::OkStatus() : absl::UnknownError(absl::StrCat(flags.output, ": cannot be written"));
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  CLI::App app(
      "Writes one HTML page with a program's graphs and, side by side, each kernel's loop nest, LLVM IR and assembly.",
      "kiln-html");
  kiln::Flags flags;
  app.add_option("file", flags.file, "a .kir graph, a loop kernel, or a recorded request; \"-\": the standard input")
      ->required();
  app.add_option("-o,--output", flags.output, "the page; \"-\": the standard output")->capture_default_str();
  app.add_option("--target", flags.target, "the CPU to compile for")->capture_default_str();
  app.add_option("--memory-budget", flags.memory_budget, "the option memory_budget; else the request's");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = kiln::Run(flags);
  if (status.ok()) return 0;
  std::cerr << "kiln-html: " << std::string(status.message()) << "\n";
  return 1;
}
