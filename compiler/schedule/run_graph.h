// Runs a graph without external calls on host arrays, kernel by kernel, through the loop interpreter: for tests and
// kiln-opt.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/schedule/choose.h"
#include "compiler/schedule/fuse.h"

namespace kiln {

struct RunGraphOptions {
  FusionLimits limits;  // group_nodes = 1: every node alone, rounded and stored: the specified sequence
  ScheduleTarget target;
  std::vector<int64_t> sizes;  // value of each size variable
};

struct GraphRun {
  std::vector<std::string> outputs;  // storages of the outputs, laid out by their types' strides
  std::vector<std::string> kernels;  // text of each kernel, in launch order
  std::vector<Schedule> schedules;
  size_t reused = 0;                    // results that stand in the memory of a value that died there
  uint64_t reads = 0, writes = 0;       // elements, over all kernels
  std::vector<uint64_t> input_reads;    // one a tensor input: elements read of its memory
  std::vector<uint64_t> output_writes;  // one an output: elements written to its memory
};

// `inputs`: the storage of each tensor input, in order. InvalidArgument if the graph makes an external call.
absl::StatusOr<GraphRun> RunGraph(const Graph& graph, std::vector<std::string> inputs,
                                  const RunGraphOptions& options = {});

}  // namespace kiln
