#include "server/request_key.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <vector>

#include "compiler/artifact/abi.h"

namespace kiln {
namespace {

const std::vector<std::string> kTargets = {"x86-64-v2", "x86-64-v3"};
constexpr char kBuild[] = "0123456789ab";

v1::CompileRequest Request() {
  v1::CompileRequest r;
  r.set_protocol_version(kProtocolVersion);
  r.mutable_graph()->set_level(v1::Graph::INFERENCE);
  v1::Symbol* symbol = r.mutable_graph()->mutable_syms()->add_symbols();
  symbol->set_min(2);
  symbol->set_max(100);
  symbol->set_size_class(4);
  r.mutable_graph()->add_ops()->set_name("aten.relu.default");
  r.mutable_graph()->add_nodes()->add_args()->set_value(0);
  r.mutable_guards()->add_globals()->set_name("grad_mode");
  r.mutable_target()->set_name("x86-64-v3");
  r.mutable_target()->mutable_host()->set_torch_version("2.13.0");
  r.mutable_target()->mutable_host()->set_aoti_abi(7);
  r.mutable_target()->mutable_host()->set_kiln_abi(kKilnAbi);
  r.mutable_debug()->add_node_names("relu");
  r.mutable_job()->set_job("train");
  return r;
}

Key KeyOf(const v1::CompileRequest& r, const std::string& build = kBuild) {
  return RequestKey(CanonicalRequest(r), build).value().ToKey();
}

using Change = std::function<void(v1::CompileRequest&)>;

TEST(RequestKeys, EveryNamedPartCounts) {
  const std::vector<std::pair<const char*, Change>> changes = {
      {"level", [](auto& r) { r.mutable_graph()->set_level(v1::Graph::JOINT); }},
      {"op", [](auto& r) { r.mutable_graph()->mutable_ops(0)->set_name("aten.exp.default"); }},
      {"schema", [](auto& r) { r.mutable_graph()->mutable_ops(0)->set_schema("exp(Tensor self) -> Tensor"); }},
      {"argument", [](auto& r) { r.mutable_graph()->mutable_nodes(0)->mutable_args(0)->set_value(1); }},
      {"phase", [](auto& r) { r.mutable_graph()->mutable_nodes(0)->set_phase(v1::Node::BACKWARD); }},
      {"range", [](auto& r) { r.mutable_graph()->mutable_syms()->mutable_symbols(0)->set_max(99); }},
      {"constant", [](auto& r) { r.mutable_graph()->add_constants()->set_data("x"); }},
      {"guard", [](auto& r) { r.mutable_guards()->mutable_globals(0)->set_value("True"); }},
      {"predicate", [](auto& r) { r.mutable_guards()->add_predicates()->set_rhs(1); }},
      {"precision", [](auto& r) { r.mutable_options()->set_precision(v1::Options::FAST); }},
      {"memory_budget", [](auto& r) { r.mutable_options()->set_memory_budget(0.5); }},
      {"no memory_budget", [](auto& r) { r.mutable_options()->set_memory_budget(0); }},
      {"target", [](auto& r) { r.mutable_target()->set_name("x86-64-v2"); }},
      {"torch", [](auto& r) { r.mutable_target()->mutable_host()->set_torch_version("2.13.1"); }},
      {"aoti_abi", [](auto& r) { r.mutable_target()->mutable_host()->set_aoti_abi(8); }},
      {"kiln_abi", [](auto& r) { r.mutable_target()->mutable_host()->set_kiln_abi(99); }},
  };
  std::set<Key> keys = {KeyOf(Request()), KeyOf(Request(), "ba9876543210")};
  for (const auto& [name, change] : changes) {
    v1::CompileRequest r = Request();
    change(r);
    EXPECT_TRUE(keys.insert(KeyOf(r)).second) << name;
  }
  EXPECT_EQ(keys.size(), changes.size() + 2);
}

TEST(RequestKeys, NamesHintsAndJobsDoNot) {
  const std::vector<std::pair<const char*, Change>> changes = {
      {"node names", [](auto& r) { r.mutable_debug()->set_node_names(0, "renamed"); }},
      {"stack traces", [](auto& r) { r.mutable_debug()->add_stack_traces("File /home/u/x.py"); }},
      {"job", [](auto& r) { r.mutable_job()->set_job("other"); }},
      {"request id", [](auto& r) { r.mutable_job()->set_request_id("7"); }},
      {"size class", [](auto& r) { r.mutable_graph()->mutable_syms()->mutable_symbols(0)->set_size_class(9); }},
      {"budget spelt out", [](auto& r) { r.mutable_options()->set_memory_budget(1.0); }},
      {"unknown field",
       [](auto& r) {
         r.mutable_graph()->GetReflection()->MutableUnknownFields(r.mutable_graph())->AddVarint(1000, 1);
       }},
  };
  for (const auto& [name, change] : changes) {
    v1::CompileRequest r = Request();
    change(r);
    EXPECT_EQ(KeyOf(r), KeyOf(Request())) << name;
  }
}

TEST(RequestKeys, PartsAreNamedAndPrintable) {
  const KeyParts parts = RequestKey(CanonicalRequest(Request()), kBuild).value();
  std::string names;
  for (const KeyPart& p : parts.parts)
    names += p.name + "=" + (p.name == "graph" || p.name == "guards" ? "" : p.printable) + " ";
  EXPECT_EQ(
      names,
      "domain=compile level=INFERENCE graph= guards= precision=EAGER memory_budget=1 target=x86-64-v3 torch=2.13.0 "
      "aoti_abi=7 kiln_abi=1 schema=1 build=0123456789ab ");
}

TEST(RequestKeys, BytesAreThoseThatAClientHashes) {
  v1::CompileRequest bare = Request();
  bare.clear_debug();
  bare.clear_job();
  EXPECT_EQ(RequestBytes(bare), bare.SerializeAsString());
  EXPECT_EQ(RequestBytes(Request()), bare.SerializeAsString());
  // A newer client's field counts, as it does in that client's digest.
  bare.GetReflection()->MutableUnknownFields(&bare)->AddVarint(1000, 1);
  EXPECT_EQ(RequestBytes(bare), bare.SerializeAsString());
  EXPECT_NE(RequestBytes(bare), RequestBytes(Request()));
}

TEST(RequestKeys, KernelKeyCoversAll) {
  v1::KernelSource k;
  k.set_symbol("k_0");
  k.set_text("for i");
  const Key key = KernelObjectKey(k, "t", "b").value();
  EXPECT_EQ(KernelObjectKey(k, "t", "b").value(), key);
  EXPECT_NE(KernelObjectKey(k, "u", "b").value(), key);
  EXPECT_NE(KernelObjectKey(k, "t", "c").value(), key);
  k.set_text("for j");
  EXPECT_NE(KernelObjectKey(k, "t", "b").value(), key);
}

TEST(CheckRequests, AGoodOneIsOk) { EXPECT_TRUE(CheckRequest(Request(), kTargets).ok()); }

TEST(CheckRequests, RefusalsNameFieldAndBothSides) {
  const std::vector<std::pair<Change, std::string>> cases = {
      {[](auto& r) { r.set_protocol_version(7); },
       "protocol_version: the client's is 7, the server's is 1: install the same kiln on both sides"},
      {[](auto& r) { r.mutable_graph()->clear_level(); }, "graph.level: unknown value 0"},
      {[](auto& r) { r.mutable_target()->set_name("sm_90"); },
       "target.name: 'sm_90', this server makes x86-64-v2, x86-64-v3"},
      {[](auto& r) { r.mutable_target()->mutable_host()->set_torch_version("2.15.0"); },
       "target.host.torch_version: the client's torch is '2.15.0', this server serves 2.11, 2.12, 2.13, 2.14"},
      {[](auto& r) { r.mutable_target()->mutable_host()->set_torch_version("2.130.0"); },
       "target.host.torch_version: the client's torch is '2.130.0', this server serves 2.11, 2.12, 2.13, 2.14"},
      {[](auto& r) { r.mutable_target()->mutable_host()->set_kiln_abi(2); },
       "target.host.kiln_abi: the client's is 2, the server's is 1"},
      {[](auto& r) { r.mutable_options()->set_precision(static_cast<v1::Options::Precision>(9)); },
       "options.precision: unknown value 9"},
      {[](auto& r) { r.mutable_options()->set_memory_budget(std::numeric_limits<double>::quiet_NaN()); },
       "options.memory_budget: want 0 to 1, have nan"},
  };
  for (const auto& [change, want] : cases) {
    v1::CompileRequest r = Request();
    change(r);
    const absl::Status s = CheckRequest(r, kTargets);
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(s.message()), want);
  }
}

}  // namespace
}  // namespace kiln
