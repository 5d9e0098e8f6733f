// Minimum cut of a flow network: Dinic's algorithm on flat arrays. Knows nothing of graphs of tensors.
#pragma once

#include <cstdint>
#include <vector>

namespace kiln {

// Finite capacities are below this, and so is their sum over a network.
inline constexpr int64_t kInfiniteCapacity = int64_t{1} << 61;

struct MinCut {
  // kInfiniteCapacity or more: no finite cut separates the two; `sink_side` is empty then.
  int64_t value = 0;
  // Per vertex. Of all minimum cuts the one with the smallest sink side, which is unique: it depends neither on the
  // order of the edges nor on the algorithm.
  std::vector<bool> sink_side;
};

// A directed network with capacities on its edges; parallel edges add up.
class FlowNetwork {
 public:
  explicit FlowNetwork(uint32_t vertices = 0) : vertices_(vertices) {}
  uint32_t AddVertex() { return vertices_++; }
  uint32_t num_vertices() const { return vertices_; }
  // REQUIRES: both vertices exist, 0 <= capacity.
  void AddEdge(uint32_t from, uint32_t to, int64_t capacity) { edges_.push_back({from, to, capacity}); }
  // REQUIRES: source != sink. Time: the number of distinct lengths of the paths that are used, times the number of
  // edges, in practice; no recursion. Test: min_cut_test.cc.
  MinCut Solve(uint32_t source, uint32_t sink) const;

 private:
  friend class Dinic;
  struct Edge {
    uint32_t from, to;
    int64_t capacity;
  };
  uint32_t vertices_;
  std::vector<Edge> edges_;
};

}  // namespace kiln
