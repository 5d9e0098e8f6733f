#include "compiler/tools/program.h"

#include <google/protobuf/io/coded_stream.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/debug/debug.h"
#include "compiler/graph/text.h"
#include "compiler/import/import.h"
#include "compiler/loop/text.h"
#include "compiler/ops/registry.h"

namespace kiln {
namespace {

// The message alone, or the first compile of a recording.
absl::StatusOr<v1::CompileRequest> ParseRequest(const std::string& bytes) {
  v1::CompileRequest request;
  if (request.ParseFromString(bytes) && request.has_graph()) return request;
  v1::Recorded recorded;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                                            static_cast<int>(bytes.size()));
  uint32_t size = 0;
  std::string frame;
  while (in.ReadVarint32(&size) && in.ReadString(&frame, static_cast<int>(size)) && recorded.ParseFromString(frame)) {
    if (recorded.has_compile()) return recorded.compile();
  }
  return absl::InvalidArgumentError("not a graph, a kernel or a compile request");
}

absl::StatusOr<std::shared_ptr<const Graph>> ParseNumbered(const std::string& text) {
  absl::StatusOr<std::shared_ptr<const Graph>> graph = ParseGraph(text, ResolveOp);
  if (!graph.ok()) return graph.status();
  std::vector<NodeId> lines;
  std::istringstream in(PrintGraph(**graph, lines));
  std::string numbered;
  for (const NodeId node : lines) {
    std::string line;
    std::getline(in, line);
    const bool number = node != kNoNode && (*graph)->nodes()[node].origin == kNoNode;
    absl::StrAppend(&numbered, line, number ? absl::StrCat(" origin=", node) : "", "\n");
  }
  return ParseGraph(numbered, ResolveOp);
}

}  // namespace

absl::StatusOr<Program> ReadProgram(const std::string& bytes) {
  Program program;
  const size_t start = bytes.find_first_not_of(" \t\r\n");
  if (start != std::string::npos && bytes.compare(start, 6, "kernel") == 0) {
    absl::StatusOr<loop::Kernel> kernel = loop::ParseKernel(bytes);
    if (!kernel.ok()) return kernel.status();
    program.kernel = *std::move(kernel);
    return program;
  }
  absl::StatusOr<std::shared_ptr<const Graph>> graph;
  if (start != std::string::npos && bytes.compare(start, 5, "graph") == 0) {
    graph = ParseNumbered(bytes);
  } else {
    absl::StatusOr<v1::CompileRequest> request = ParseRequest(bytes);
    if (!request.ok()) return request.status();
    program.request = *std::move(request);
    graph = ImportGraph(program.request.graph());
  }
  if (!graph.ok()) return graph.status();
  program.graph = *std::move(graph);
  return program;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  return std::string(std::istreambuf_iterator<char>(in), {});
}

absl::StatusOr<GraphFunctions> FunctionsOf(const Program& program, bool verify) {
  absl::StatusOr<Options> options = ImportOptions(program.request.options());
  if (!options.ok()) return options.status();
  PassContext context;
  context.options = *options;
  context.debug = DebugFromEnvironment();
  context.debug.verify |= verify;
  return MakeFunctions(program.graph, context, StaticInputs(program.request.guards()));
}

}  // namespace kiln
