// The graphs of a request, as fusion sees them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/partition/split.h"
#include "compiler/pipeline/pass.h"
#include "proto/graph.pb.h"

namespace kiln {

struct NamedGraph {
  std::string name;  // "forward" and "backward", or "inference"
  std::shared_ptr<const Graph> graph;
  bool inputs_die = false;  // FusionLimits: the backward's, which nobody else holds
};

// A saved value as the client knows it.
struct ClientValue {
  ValueId value = kNoValue;    // of the request's graph
  std::optional<DType> dtype;  // not the value itself, but one with its sizes and strides and this dtype
};

struct GraphFunctions {
  std::shared_ptr<const Graph> request;  // after the request passes
  Saved saved;                           // by the forward, of `request`'s values; empty for inference
  std::vector<ClientValue> saved_as;     // one a saved value
  std::vector<NamedGraph> functions;     // after all passes
};

// Request passes, partition, graph passes. `context.subject` is set to the name of what is being worked on.
// `static_inputs` as in PartitionOptions.
absl::StatusOr<GraphFunctions> MakeFunctions(std::shared_ptr<const Graph> request, PassContext& context,
                                             std::vector<bool> static_inputs = {});

// The static_inputs of a request.
std::vector<bool> StaticInputs(const v1::GuardSpec& guards);

}  // namespace kiln
