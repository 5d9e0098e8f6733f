#include "server/admission.h"

#include <gtest/gtest.h>

#include <optional>

#include "server/config.h"
#include "server/status.h"

namespace kiln {
namespace {

v1::Config::Limits Limits() {
  v1::Config config;
  EXPECT_TRUE(CompleteConfig(&config).ok());
  config.mutable_limits()->set_nodes(100);
  config.mutable_limits()->set_symbols(10);
  return config.limits();
}

absl::Status Check(const v1::CompileRequest& r) { return CheckBounds(r, Limits()); }

TEST(Bounds, AnEmptyRequestIsWithin) { EXPECT_TRUE(Check({}).ok()); }

TEST(Bounds, SymbolsAreNamedWithTheBound) {
  v1::CompileRequest r;
  for (int i = 0; i < 1'000'000; ++i) r.mutable_graph()->mutable_syms()->add_symbols();
  const absl::Status s = Check(r);
  EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(s.message(), "graph.syms.symbols: 1000000, the server's bound is 10");
}

TEST(Bounds, NodesAndTables) {
  v1::CompileRequest r;
  for (int i = 0; i < 101; ++i) r.mutable_graph()->add_nodes();
  EXPECT_EQ(Check(r).message(), "graph.nodes: 101, the server's bound is 100");
  v1::CompileRequest t;
  for (int i = 0; i < 801; ++i) t.mutable_guards()->add_predicates();
  EXPECT_EQ(Check(t).message(), "guards.predicates: 801, the server's bound is 800");
}

TEST(Bounds, Arguments) {
  v1::CompileRequest r;
  v1::Node* node = r.mutable_graph()->add_nodes();
  v1::Arg::List* list = node->add_args()->mutable_list();
  for (int i = 0; i < 6400; ++i) list->add_items();
  EXPECT_EQ(Check(r).message(), "graph.nodes: arguments of all nodes: 6401, the server's bound is 6400");
}

TEST(Bounds, ListWithinAListNamesTheNode) {
  v1::CompileRequest r;
  r.mutable_graph()->add_nodes();
  v1::Node* node = r.mutable_graph()->add_nodes();
  node->add_args();
  node->add_args()->mutable_list()->add_items()->mutable_list();
  const absl::Status s = Check(r);
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(s.message(), "graph.nodes[1].args[1]: a list within a list");
  EXPECT_EQ(NodeOfStatus(s), 1);
}

TEST(Bounds, RankAndNames) {
  v1::CompileRequest r;
  r.mutable_graph()->add_types();
  for (int i = 0; i < 65; ++i) r.mutable_graph()->add_types()->add_strides(0);
  for (int i = 0; i < 65; ++i) r.mutable_graph()->mutable_types(1)->add_strides(0);
  EXPECT_EQ(Check(r).message(), "graph.types[1]: rank: 66, the server's bound is 64");
  v1::CompileRequest n;
  n.mutable_graph()->add_ops()->set_schema(std::string(70000, 'x'));
  EXPECT_EQ(Check(n).message(), "graph.ops[0]: bytes: 70000, the server's bound is 65536");
}

TEST(Bounds, Bytes) {
  v1::Config::Limits limits = Limits();
  limits.set_message_bytes(10);
  v1::CompileRequest r;
  r.mutable_job()->set_job("longer than ten bytes");
  EXPECT_EQ(CheckBounds(r, limits).message(), "request: bytes: 25, the server's bound is 10");
}

TEST(Gates, AmountsAddUp) {
  Gate gate("bytes", 10);
  std::optional<Gate::Ticket> six = gate.Enter(6).value();
  EXPECT_EQ(gate.Enter(5).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(gate.Enter(~uint64_t{0}).status().code(), absl::StatusCode::kResourceExhausted);
  const Gate::Ticket four = gate.Enter(4).value();
  EXPECT_EQ(gate.inside(), 10u);
  six.reset();
  EXPECT_EQ(gate.inside(), 4u);
}

TEST(Gates, RefuseWhenFullWithAHint) {
  Gate gate("compiles waiting or running", 2);
  const Gate::Ticket a = gate.Enter().value();
  std::optional<Gate::Ticket> b = gate.Enter().value();
  const absl::Status s = gate.Enter().status();
  EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(s.message()).substr(0, 55), "compiles waiting or running: 2, the server's bound is 2");
  EXPECT_EQ(RetryAfter(s), absl::Seconds(2));
  b.reset();
  EXPECT_EQ(gate.inside(), 1u);
  EXPECT_TRUE(gate.Enter().ok());
}

}  // namespace
}  // namespace kiln
