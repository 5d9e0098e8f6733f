// What the tools read: a graph, a kernel or a recorded request.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/compile/functions.h"
#include "compiler/graph/graph.h"
#include "compiler/loop/ir.h"
#include "proto/compile.pb.h"

namespace kiln {

struct Program {
  std::optional<loop::Kernel> kernel;  // or
  std::shared_ptr<const Graph> graph;  // as imported; node i's origin is i, but where a text says another
  v1::CompileRequest request;          // a recorded one; of a text only the options, which are the default
};

// The program in `bytes`: loop text, .kir text, or a binary v1.CompileRequest, alone or the first of a record file.
absl::StatusOr<Program> ReadProgram(const std::string& bytes);

// The bytes of a file; "-" is the standard input.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// The program's graph through the partition and all passes, with the request's options; `verify` checks after each
// pass.
absl::StatusOr<GraphFunctions> FunctionsOf(const Program& program, bool verify = false);

}  // namespace kiln
