// What the compiler makes of a program, side by side: graph, loop nests, LLVM IR and assembly, with what comes from
// what.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/cpu/object.h"
#include "compiler/graph/graph.h"
#include "compiler/tools/program.h"

namespace kiln {

// A distinct kernel. Line numbers of `loop` start from 0.
struct ListedKernel {
  std::string loop;  // before mathlib's functions are expanded
  TracedCode code;   // origins: lines of `loop`; in the IR, a vector constant of equal elements is a splat
};

// One kernel of a function, or an external call. (In a plan, kernels that follow each other are one launch.)
struct ListedStep {
  uint32_t kernel = loop::kNone;       // index into Listing::kernels; kNone: external
  std::string schedule = {};           // of a kernel
  std::vector<NodeId> nodes = {};      // that it computes, and the views through which it reads; sorted
  std::vector<uint32_t> origins = {};  // one a line of the kernel's loop nest: the node that it is for; that a buffer's
                                       // line names: the node that makes it; kNone for none
};

struct ListedGraph {
  std::string name;  // "request", "forward" …
  std::string text;
  std::vector<NodeId> nodes;      // one a line of the text
  std::vector<uint32_t> origins;  // one a node: the request's node that it comes from
  std::vector<ListedStep> steps;  // none of the request
};

struct Listing {
  std::string target;
  std::vector<ListedGraph> graphs;  // the request as imported, then its functions after all passes; none for a kernel
  std::vector<ListedKernel> kernels;
};

// Deterministic. Compiles in as many threads as the machine has.
absl::StatusOr<Listing> List(const Program& program, std::string_view target);

}  // namespace kiln
