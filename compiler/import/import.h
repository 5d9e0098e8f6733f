// A client's graph becomes the compiler's: everything in it is checked, nothing is trusted.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "proto/graph.pb.h"

namespace kiln {

// Beyond these the request is refused with ResourceExhausted. They bound memory and time, not what is sensible.
struct ImportLimits {
  int max_symbols = 4096;
  int max_exprs = 1 << 16;
  int max_types = 1 << 18;
  int max_ops = 1 << 14;
  int max_inputs = 1 << 16;
  int max_nodes = 1 << 17;
  int max_args = 1 << 16;     // of one node, lists and their items counted
  int max_results = 1 << 12;  // of one node
  int max_rank = 64;
  int max_string_bytes = 1 << 14;                  // names, schemas, string arguments
  int64_t max_constant_bytes = int64_t{64} << 20;  // all constants together
  // Size expressions: operands in the text of one, operations nested in each other, entries held by all.
  uint64_t max_expr_weight = 4096;
  uint32_t max_expr_depth = 64;
  uint64_t max_expr_footprint = 1 << 22;
};

// Value ids are the request's own, and node i's origin is i. A copy_ into an input becomes an update (Graph::updates),
// and what reads the input afterwards reads the written value; so the body is functional. Nodes whose operator has a
// record (ops/registry.h) are checked against its shape rule; others run as external calls.
//
// InvalidArgument names the field, "graph.nodes[12].args[1]: value 99 is not defined before the node";
// ResourceExhausted the bound; Unimplemented what kiln can't do (the torch level, other operators that write to their
// arguments). Thread-safe. Test: import_test.cc.
absl::StatusOr<std::shared_ptr<const Graph>> ImportGraph(const v1::Graph& graph, const ImportLimits& limits = {});

}  // namespace kiln
