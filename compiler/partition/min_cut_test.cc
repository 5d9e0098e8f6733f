#include "compiler/partition/min_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace kiln {
namespace {

struct Edge {
  uint32_t from, to;
  int64_t capacity;
};

FlowNetwork Network(uint32_t vertices, const std::vector<Edge>& edges) {
  FlowNetwork network(vertices);
  for (const Edge& e : edges) network.AddEdge(e.from, e.to, e.capacity);
  return network;
}

// Vertex 0 is the source, the last one the sink.
int64_t Value(const std::vector<Edge>& edges, const std::vector<bool>& sink_side) {
  int64_t value = 0;
  for (const Edge& e : edges) value += !sink_side[e.from] && sink_side[e.to] ? e.capacity : 0;
  return value;
}

// By trying every set of vertices; of the best ones the smallest.
MinCut BruteForce(uint32_t vertices, const std::vector<Edge>& edges) {
  MinCut best{kInfiniteCapacity, {}};
  std::vector<bool> side(vertices);
  side[vertices - 1] = true;
  for (uint32_t set = 0; set < 1u << (vertices - 2); ++set) {
    for (uint32_t v = 1; v + 1 < vertices; ++v) side[v] = set >> (v - 1) & 1;
    const int64_t value = Value(edges, side);
    const auto size = [](const std::vector<bool>& s) { return std::count(s.begin(), s.end(), true); };
    if (value < best.value || (value == best.value && size(side) < size(best.sink_side))) best = {value, side};
  }
  return best;
}

TEST(MinCut, AgreesWithBruteForce) {
  std::mt19937 random(7);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  for (int round = 0; round < 500; ++round) {
    const uint32_t vertices = 2 + below(9);
    std::vector<Edge> edges(below(vertices * 3));
    for (Edge& e : edges) e = {below(vertices), below(vertices), below(4) == 0 ? 0 : below(20)};
    const MinCut expected = BruteForce(vertices, edges);
    const MinCut actual = Network(vertices, edges).Solve(0, vertices - 1);
    EXPECT_EQ(actual.value, expected.value) << round;
    EXPECT_EQ(actual.sink_side, expected.sink_side) << round;
  }
}

int64_t Capacity(const std::string& text) { return text == "inf" ? kInfiniteCapacity : std::stoll(text); }

// testdata/make_cuts.py says how the file is made.
TEST(MinCut, AgreesWithPyTorchsSolver) {
  std::ifstream file("compiler/partition/testdata/cuts.txt");
  int graphs = 0, unbounded = 0;
  for (std::string line; std::getline(file, line); ++graphs) {
    std::istringstream words(line);
    uint32_t vertices = 0;
    std::string value, edge;
    words >> vertices >> value;
    FlowNetwork network(vertices);
    while (words >> edge) {
      const size_t first = edge.find(','), last = edge.rfind(',');
      network.AddEdge(static_cast<uint32_t>(std::stoul(edge)),
                      static_cast<uint32_t>(std::stoul(edge.substr(first + 1))), Capacity(edge.substr(last + 1)));
    }
    const MinCut cut = network.Solve(0, vertices - 1);
    EXPECT_EQ(std::min(cut.value, kInfiniteCapacity), Capacity(value)) << "line " << graphs + 1;
    unbounded += value == "inf";
  }
  EXPECT_EQ(graphs, 200);
  EXPECT_GT(unbounded, 0);
  EXPECT_LT(unbounded, 100);
}

TEST(MinCut, InfiniteEdgesAreNeverCut) {
  const std::vector<Edge> edges = {{0, 1, kInfiniteCapacity}, {1, 2, 5}, {2, 3, kInfiniteCapacity}};
  EXPECT_EQ(Network(4, edges).Solve(0, 3).value, 5);
  std::vector<Edge> open = edges;
  open.push_back({1, 3, kInfiniteCapacity});
  const MinCut none = Network(4, open).Solve(0, 3);
  EXPECT_GE(none.value, kInfiniteCapacity);
  EXPECT_TRUE(none.sink_side.empty());
}

TEST(MinCut, InfiniteEdgesCarryManyFlows) {
  std::vector<Edge> edges = {{1, 2, kInfiniteCapacity}};
  for (uint32_t i = 0; i < 100; ++i) {
    edges.push_back({0, 1, int64_t{1} << 40});
    edges.push_back({2, 3, int64_t{1} << 40});
  }
  EXPECT_EQ(Network(4, edges).Solve(0, 3).value, int64_t{100} << 40);
}

TEST(MinCut, RaisingACapacityMovesTheCut) {
  std::vector<Edge> edges = {{0, 1, 9}, {1, 2, 3}, {2, 3, 4}};
  EXPECT_EQ(Network(4, edges).Solve(0, 3).sink_side, (std::vector<bool>{false, false, true, true}));
  edges[1].capacity = 5;
  EXPECT_EQ(Network(4, edges).Solve(0, 3).sink_side, (std::vector<bool>{false, false, false, true}));
}

TEST(MinCut, OrderOfEdgesDoesNotMatter) {
  std::mt19937 random(11);
  std::vector<Edge> edges(60);
  for (Edge& e : edges) {
    e = {static_cast<uint32_t>(random() % 20), static_cast<uint32_t>(random() % 20),
         static_cast<int64_t>(random() % 3)};
  }
  const MinCut first = Network(20, edges).Solve(0, 19);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(edges.begin(), edges.end(), random);
    EXPECT_EQ(Network(20, edges).Solve(0, 19).sink_side, first.sink_side);
  }
}

TEST(MinCut, DeepNetworks) {
  const uint32_t n = 100000;
  FlowNetwork network(n);
  for (uint32_t v = 0; v + 1 < n; ++v) network.AddEdge(v, v + 1, 1 + v % 7);
  EXPECT_EQ(network.Solve(0, n - 1).value, 1);
}

}  // namespace
}  // namespace kiln
