#include "compiler/partition/min_cut.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace kiln {
namespace {

constexpr uint32_t kUnreached = 0xffffffff;

}  // namespace

// Distances are to the sink: the last search, which does not reach the source, has then found the smallest sink side.
class Dinic {
 public:
  Dinic(const FlowNetwork& network, uint32_t source, uint32_t sink)
      : source_(source),
        sink_(sink),
        first_(network.vertices_ + 1),
        distance_(network.vertices_),
        next_(network.vertices_) {
    Link(network);
  }

  MinCut Run() {
    MinCut cut;
    while (FindDistances()) {
      std::copy(first_.begin(), first_.end() - 1, next_.begin());
      while (const int64_t pushed = Augment()) {
        cut.value += pushed;
        if (cut.value >= kInfiniteCapacity) return cut;
      }
    }
    cut.sink_side.resize(distance_.size());
    for (size_t v = 0; v < distance_.size(); ++v) cut.sink_side[v] = distance_[v] != kUnreached;
    return cut;
  }

 private:
  // Arcs of one vertex stand together, each edge's two arcs know each other.
  void Link(const FlowNetwork& network) {
    for (const FlowNetwork::Edge& edge : network.edges_) {
      ++first_[edge.from + 1];
      ++first_[edge.to + 1];
    }
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    const size_t arcs = network.edges_.size() * 2;
    to_.resize(arcs);
    reverse_.resize(arcs);
    residual_.resize(arcs);
    std::vector<uint32_t> end(first_.begin(), first_.end() - 1);
    for (const FlowNetwork::Edge& edge : network.edges_) {
      const uint32_t arc = end[edge.from]++, back = end[edge.to]++;
      to_[arc] = edge.to;
      to_[back] = edge.from;
      reverse_[arc] = back;
      reverse_[back] = arc;
      residual_[arc] = std::min(edge.capacity, kInfiniteCapacity);
    }
  }

  // Breadth first from the sink against the arcs. Everything that reaches the sink gets its distance unless the source
  // does first.
  bool FindDistances() {
    std::fill(distance_.begin(), distance_.end(), kUnreached);
    queue_.assign(1, sink_);
    distance_[sink_] = 0;
    for (size_t head = 0; head < queue_.size(); ++head) {
      const uint32_t v = queue_[head];
      for (uint32_t arc = first_[v]; arc < first_[v + 1]; ++arc) {
        const uint32_t from = to_[arc];
        if (residual_[reverse_[arc]] == 0 || distance_[from] != kUnreached) continue;
        distance_[from] = distance_[v] + 1;
        if (from == source_) return true;
        queue_.push_back(from);
      }
    }
    return false;
  }

  // Depth first along falling distances; 0 if there is no path left of the present length.
  int64_t Augment() {
    path_.clear();
    uint32_t v = source_;
    while (v != sink_) {
      uint32_t& arc = next_[v];
      while (arc < first_[v + 1] && !Falls(v, arc)) ++arc;
      if (arc < first_[v + 1]) {
        path_.push_back(arc);
        v = to_[arc];
      } else if (path_.empty()) {
        return 0;
      } else {
        v = to_[reverse_[path_.back()]];
        path_.pop_back();
        ++next_[v];
      }
    }
    int64_t pushed = kInfiniteCapacity;
    for (const uint32_t arc : path_) pushed = std::min(pushed, residual_[arc]);
    for (const uint32_t arc : path_) {
      // What is infinite stays so: sums of finite flows never use it up.
      if (residual_[arc] < kInfiniteCapacity) residual_[arc] -= pushed;
      residual_[reverse_[arc]] = std::min(residual_[reverse_[arc]] + pushed, kInfiniteCapacity);
    }
    return pushed;
  }

  bool Falls(uint32_t v, uint32_t arc) const {
    return residual_[arc] > 0 && distance_[to_[arc]] != kUnreached && distance_[to_[arc]] + 1 == distance_[v];
  }

  const uint32_t source_, sink_;
  std::vector<uint32_t> first_;     // per vertex: its arcs are [first, first of the next)
  std::vector<uint32_t> to_;        // per arc
  std::vector<uint32_t> reverse_;   // per arc
  std::vector<int64_t> residual_;   // per arc
  std::vector<uint32_t> distance_;  // per vertex
  std::vector<uint32_t> next_;      // per vertex: the arc to try next
  std::vector<uint32_t> queue_, path_;
};

MinCut FlowNetwork::Solve(uint32_t source, uint32_t sink) const { return Dinic(*this, source, sink).Run(); }

}  // namespace kiln
