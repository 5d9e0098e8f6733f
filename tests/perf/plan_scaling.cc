// How planning grows: pointwise and reduction graphs of 1,000 to 20,000 nodes through Plan, each in a process of its
// own; alone, and as a forward with a backward that reads all of it.
//
//   bazel run //tests/perf:plan_scaling
//
// Exit status 1 if 10,000 nodes take 3 seconds or more, or if time or memory a node grows more than twofold from 1,000
// to 10,000 nodes.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "compiler/compile/compile.h"
#include "proto/compile.pb.h"
#include "proto/graph.pb.h"
#include "proto/jobs.pb.h"

namespace {

using kiln::v1::Arg;
using kiln::v1::Graph;
using kiln::v1::Node;

class GraphWriter {
 public:
  GraphWriter() {
    graph_.set_level(Graph::INFERENCE);
    for (const int64_t n : {1, 64, 256}) {
      kiln::v1::SymExpr* expr = graph_.mutable_syms()->add_exprs();
      expr->set_op(kiln::v1::SymExpr::CONST);
      expr->set_value(n);
    }
    AddType({1, 2}, {2, 0});  // f32[64, 256]
    AddType({1, 0}, {0, 0});  // f32[64, 1]
    AddOp("aten.add.Tensor", "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
    AddOp("aten.mul.Tensor", "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor");
    AddOp("aten.exp.default", "aten::exp(Tensor self) -> Tensor");
    AddOp("aten.sum.dim_IntList",
          "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor");
    graph_.add_inputs()->set_type(0);
    graph_.add_inputs()->set_type(0);
  }

  Graph Write(int nodes) {
    graph_.add_outputs()->set_value(AddNodes(nodes).back());
    return graph_;
  }

  // Half of the nodes are the forward's; each gradient is the one before, times a value of the forward.
  Graph WriteJoint(int nodes) {
    graph_.set_level(Graph::JOINT);
    graph_.set_num_primals(2);
    graph_.set_num_forward_outputs(1);
    uint32_t gradient = static_cast<uint32_t>(graph_.inputs_size());
    graph_.add_inputs()->set_type(0);
    const std::vector<uint32_t> values = AddNodes(nodes / 2);
    graph_.add_outputs()->set_value(values.back());
    for (size_t i = values.size(); i-- > 0;) {
      gradient = Mul(gradient, values[i]);
      graph_.mutable_nodes(graph_.nodes_size() - 1)->set_phase(Node::BACKWARD);
    }
    graph_.add_outputs()->set_value(gradient);
    graph_.add_outputs()->mutable_none();
    return graph_;
  }

 private:
  // The values on the way.
  std::vector<uint32_t> AddNodes(int nodes) {
    std::vector<uint32_t> values;
    uint32_t x = 0, y = 1;
    while (graph_.nodes_size() < nodes) {
      switch (graph_.nodes_size() % 7) {
        case 0:
          y = std::exchange(x, Exp(x));
          break;
        case 3: {
          const uint32_t sum = Sum(x);
          x = Add(x, sum);
          break;
        }
        case 6:
          x = Mul(x, x);
          break;
        default:
          x = Add(x, y);
      }
      values.push_back(x);
    }
    return values;
  }

  void AddType(std::initializer_list<uint32_t> sizes, std::initializer_list<uint32_t> strides) {
    kiln::v1::TensorType* type = graph_.add_types();
    type->set_dtype(kiln::v1::FLOAT32);
    type->set_device(kiln::v1::CPU);
    for (const uint32_t s : sizes) type->add_sizes(s);
    for (const uint32_t s : strides) type->add_strides(s);
  }
  void AddOp(const char* name, const char* schema) {
    kiln::v1::OpRef* op = graph_.add_ops();
    op->set_name(name);
    op->set_schema(schema);
  }
  Node* AddNode(uint32_t op, uint32_t type) {
    Node* node = graph_.add_nodes();
    node->set_op(op);
    node->add_result_types(type);
    return node;
  }
  uint32_t Result() const { return static_cast<uint32_t>(graph_.inputs_size() + graph_.nodes_size() - 1); }
  uint32_t Add(uint32_t a, uint32_t b) {
    Node* node = AddNode(0, 0);
    node->add_args()->set_value(a);
    node->add_args()->set_value(b);
    node->add_args()->set_i(1);
    return Result();
  }
  uint32_t Mul(uint32_t a, uint32_t b) {
    Node* node = AddNode(1, 0);
    node->add_args()->set_value(a);
    node->add_args()->set_value(b);
    return Result();
  }
  uint32_t Exp(uint32_t a) {
    AddNode(2, 0)->add_args()->set_value(a);
    return Result();
  }
  uint32_t Sum(uint32_t a) {
    Node* node = AddNode(3, 1);
    node->add_args()->set_value(a);
    node->add_args()->mutable_list()->add_items()->set_i(1);
    node->add_args()->set_b(true);
    node->add_args()->mutable_none();
    return Result();
  }

  Graph graph_;
};

struct Cost {
  double seconds = 0;
  double megabytes = 0;  // peak, above that of an empty process
  int kernels = 0;
};

Cost Measure(bool joint, int nodes) {
  kiln::v1::PlanJob job;
  *job.mutable_request()->mutable_graph() = joint ? GraphWriter().WriteJoint(nodes) : GraphWriter().Write(nodes);
  job.mutable_request()->mutable_target()->set_name("x86-64-v3");
  job.set_build("perf");
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<kiln::v1::PlanResult> plan = kiln::Plan(job);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  getrusage(RUSAGE_SELF, &after);
  if (!plan.ok()) {
    fprintf(stderr, "%s\n", plan.status().ToString().c_str());
    exit(2);
  }
  return {seconds.count(), static_cast<double>(after.ru_maxrss - before.ru_maxrss) / 1024, plan->kernels_size()};
}

// In a child, so that one graph's memory does not count for the next.
Cost MeasureApart(bool joint, int nodes) {
  int pipe_fds[2];
  if (pipe(pipe_fds) != 0) exit(2);
  const pid_t child = fork();
  if (child == 0) {
    const Cost cost = Measure(joint, nodes);
    _exit(write(pipe_fds[1], &cost, sizeof cost) == sizeof cost ? 0 : 2);
  }
  close(pipe_fds[1]);
  Cost cost;
  int status = 0;
  const bool read_all = read(pipe_fds[0], &cost, sizeof cost) == sizeof cost;
  close(pipe_fds[0]);
  waitpid(child, &status, 0);
  if (!read_all || status != 0) exit(2);
  return cost;
}

// Whether it grows as it should.
bool Table(bool joint) {
  printf("%s\n", joint ? "forward and backward" : "inference");
  printf("%8s %10s %14s %10s %14s %8s\n", "nodes", "seconds", "us a node", "MiB", "KiB a node", "kernels");
  Cost first, tenth;
  for (const int nodes : {1000, 2000, 5000, 10000, 20000}) {
    const Cost cost = MeasureApart(joint, nodes);
    if (nodes == 1000) first = cost;
    if (nodes == 10000) tenth = cost;
    printf("%8d %10.3f %14.1f %10.1f %14.2f %8d\n", nodes, cost.seconds, cost.seconds / nodes * 1e6, cost.megabytes,
           cost.megabytes * 1024 / nodes, cost.kernels);
  }
  const bool fast = tenth.seconds < 3;
  const bool linear = tenth.seconds < 20 * first.seconds && tenth.megabytes < 20 * first.megabytes;
  printf("10,000 nodes under 3 s: %s; near-linear: %s\n", fast ? "yes" : "NO", linear ? "yes" : "NO");
  return fast && linear;
}

}  // namespace

int main() {
  const bool inference = Table(/*joint=*/false), joint = Table(/*joint=*/true);
  return inference && joint ? 0 : 1;
}
