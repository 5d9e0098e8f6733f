#include "compiler/import/import.h"

#include <google/protobuf/text_format.h>

#include <string>

#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/import/canonical.h"
#include "compiler/ops/registry.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

// y = relu(x) for x of [s0, 8], with s0 as an input.
constexpr char kRelu[] = R"pb(
  level: INFERENCE
  syms {
    symbols { min: 2 max: 9223372036854775807 size_class: 4 }
    exprs { op: SYMBOL value: 0 }
    exprs { op: CONST value: 8 }
    exprs { op: CONST value: 1 }
    exprs { op: MUL args: 0 args: 1 }
  }
  types { dtype: FLOAT32 device: CPU sizes: 0 sizes: 1 strides: 1 strides: 2 }
  ops { name: "aten.relu.default" schema: "aten::relu(Tensor self) -> Tensor" }
  inputs { sym: 0 }
  inputs { type: 0 }
  nodes {
    op: 0
    args { value: 1 }
    result_types: 0
  }
  outputs { value: 2 }
  outputs { sym: 3 }
  outputs { none {} }
)pb";

v1::Graph Proto(const std::string& text) {
  v1::Graph graph;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &graph));
  return graph;
}

// kRelu with `more` merged in: messages and repeated fields are appended.
v1::Graph With(const std::string& more) {
  v1::Graph graph = Proto(kRelu);
  graph.MergeFrom(Proto(more));
  return graph;
}

std::string Invalid(const v1::Graph& graph) {
  absl::Status status = ImportGraph(graph).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(ImportGraph, KeepsIdsOriginsAndSizes) {
  auto graph = ImportGraph(Proto(kRelu));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(PrintGraph(**graph), R"(graph inference
size s0 [2, inf] class=4
op aten.relu.default "aten::relu(Tensor self) -> Tensor"
input s0
%1 = input f32[s0, 8]
%2 = aten.relu.default(%1) : f32[s0, 8] origin=0
return %2, s0*8, none
)");
  EXPECT_TRUE(VerifyGraph(**graph).ok());
  EXPECT_EQ((*graph)->nodes()[0].def, FindTorchOp("aten.relu.default"));
}

TEST(ImportGraph, AnOperatorWithoutARecordIsAnExternalCall) {
  auto graph = ImportGraph(With(R"pb(
    ops {
      name: "mylib.spin.fast"
      schema: "mylib::spin.fast(Tensor x, int[] k, float p=0.5, str? s=None) -> (Tensor, Tensor?)"
    }
    nodes {
      op: 1
      args { value: 2 }
      args {
        list {
          items { i: 3 }
          items { sym: 3 }
        }
      }
      args { f: 0.25 }
      args { none {} }
      result_types: 0
      result_types: 4294967295
    }
  )pb"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  const Node& node = (*graph)->nodes()[1];
  EXPECT_EQ(node.def, nullptr);
  EXPECT_EQ(PrintNode(**graph, node),
            "%3, %4 = mylib.spin.fast(%2, [3, s0*8], 0.25, none) : f32[s0, 8], none origin=1");
}

constexpr char kCopy[] = R"pb(
  ops {
    name: "aten.copy_.default"
    schema: "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)"
  }
  nodes {
    op: 1
    args { value: 1 }
    args { value: 2 }
    args { b: false }
    result_types: 0
  }
)pb";

TEST(ImportGraph, CopyIntoAnInputIsAnUpdate) {
  auto graph = ImportGraph(With(std::string(kCopy) + R"pb(
    nodes {
      op: 0
      args { value: 1 }
      result_types: 0
    }
    outputs { value: 3 }
    outputs { value: 4 }
  )pb"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ((*graph)->updates().size(), 1u);
  EXPECT_EQ((*graph)->updates()[0], (GraphUpdate{1, 2}));
  ASSERT_EQ((*graph)->nodes().size(), 2u);
  // What reads the input or the copy_ afterwards reads what was written; ids stay the request's.
  EXPECT_EQ(PrintNode(**graph, (*graph)->nodes()[1]), "%4 = aten.relu.default(%2) : f32[s0, 8] origin=2");
  EXPECT_EQ((*graph)->outputs()[3].value, 2u);
  EXPECT_TRUE(VerifyGraph(**graph).ok());
}

TEST(ImportGraph, OtherWritesAreUnimplemented) {
  v1::Graph into_result = With(kCopy);
  into_result.mutable_nodes(1)->mutable_args(0)->set_value(2);
  EXPECT_EQ(ImportGraph(into_result).status().message(),
            "graph.nodes[1]: copy_ into anything but an input, or in the backward");
  v1::Graph in_place =
      With(R"pb(ops { name: "aten.relu_.default" schema: "aten::relu_(Tensor(a!) self) -> Tensor(a!)" })pb");
  EXPECT_EQ(ImportGraph(in_place).status().code(), absl::StatusCode::kUnimplemented);
  v1::Graph torch = Proto(kRelu);
  torch.set_level(v1::Graph::TORCH);
  EXPECT_EQ(ImportGraph(torch).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(ImportGraph, JointCounts) {
  const std::string joint = "level: JOINT num_primals: 2 num_forward_outputs: 1";
  auto graph = ImportGraph(With(joint));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ((*graph)->num_primals(), 2u);
  EXPECT_EQ((*graph)->num_forward_outputs(), 1u);
  EXPECT_EQ(Invalid(With("level: JOINT num_primals: 3")), "graph.num_primals: 3 of 2 inputs");
  EXPECT_EQ(Invalid(With("level: JOINT num_primals: 1 num_forward_outputs: 1")),
            "graph.outputs: 3, not 1 of the forward and one a primal (1)");
  EXPECT_EQ(Invalid(With("num_primals: 1")),
            "graph.num_primals, graph.num_forward_outputs: an inference graph has neither");
}

TEST(ImportGraph, Constants) {
  auto graph = ImportGraph(With("types { dtype: BOOL device: CPU sizes: 1 strides: 2 }"));
  EXPECT_TRUE(graph.ok());
  // Constants take ids before the nodes.
  v1::Graph proto = Proto(kRelu);
  proto.mutable_outputs(0)->set_value(3);
  proto.add_constants()->set_type(1);
  *proto.add_types() = Proto("types { dtype: BOOL device: CPU sizes: 1 strides: 2 }").types(0);
  EXPECT_EQ(Invalid(proto), "graph.constants[0].data: 0 bytes are not what the type takes");
  proto.mutable_constants(0)->set_data("01234567");
  EXPECT_TRUE(ImportGraph(proto).ok());
  proto.mutable_constants(0)->set_type(0);
  EXPECT_EQ(Invalid(proto), "graph.constants[0].type: a constant has fixed sizes");
}

// One hostile change each, and the message that it must get.
TEST(ImportGraph, NamesTheFieldThatIsWrong) {
  const struct {
    const char* more;
    const char* message;
  } kCases[] = {
      {"syms { exprs { op: ADD args: 0 args: 4 } }",
       "graph.syms.exprs[4].args[1]: expression 4 does not come before this one"},
      {"syms { exprs { op: SYMBOL value: 1 } }", "graph.syms.exprs[4].value: there is no symbol 1"},
      {"syms { exprs { op: FLOOR_DIV args: 0 } }", "graph.syms.exprs[4].args: 1 are not what its op takes"},
      {"syms { exprs { args: 0 args: 0 } }", "graph.syms.exprs[4].op: unknown operation 0"},
      {"syms { symbols { min: 3 max: 2 } }", "graph.syms.symbols[1]: the range [3, 2] is empty"},
      {"types { device: CPU }", "graph.types[1].dtype: unknown dtype 0"},
      {"types { dtype: INT8 }", "graph.types[1].device: unknown device type 0"},
      {"types { dtype: INT8 device: CPU sizes: 9 strides: 0 }", "graph.types[1].sizes[0]: there is no expression 9"},
      {"types { dtype: INT8 device: CPU sizes: 0 }", "graph.types[1].strides: 0 strides for 1 sizes"},
      {"syms { exprs { op: CONST value: -1 } } types { dtype: INT8 device: CPU sizes: 4 strides: 2 }",
       "graph.types[1].sizes[0]: the size -1 is negative"},
      {"syms { exprs { op: CONST value: 4611686018427387904 } } types { dtype: INT8 device: CPU sizes: 4 sizes: 1 "
       "strides: 2 "
       "strides: 2 }",
       "graph.types[1]: a tensor of more than 2^62 bytes"},
      {"ops { name: 'aten.x y' schema: '' }", "graph.ops[1].name: not the name of an overload, like aten.add.Tensor"},
      {"ops { name: 'aten.x' schema: 'aten::y(' }",
       "graph.ops[1].schema: schema \"aten::y(\": expected a type at column 8"},
      {"ops { name: 'aten.x.default' schema: 'aten::y(Tensor x) -> Tensor' }",
       "graph.ops[1].schema: is of aten.y.default, not of aten.x.default"},
      {"inputs { type: 7 }", "graph.inputs[2].type: there is no type 7"},
      {"inputs { sym: 1 }", "graph.inputs[2].sym: is not a symbol"},
      {"inputs { }", "graph.inputs[2]: neither a tensor nor a size"},
      {"nodes { op: 3 }", "graph.nodes[1].op: there is no operator 3"},
      {"nodes { op: 0 args { value: 99 } result_types: 0 }",
       "graph.nodes[1].args[0]: value 99 is not defined before the node"},
      {"nodes { op: 0 args { value: 3 } result_types: 0 }",
       "graph.nodes[1].args[0]: value 3 is not defined before the node"},
      {"nodes { op: 0 args { value: 0 } result_types: 0 }",
       "graph.nodes[1].args[0]: value 0 is not defined before the node"},
      {"nodes { op: 0 args { } result_types: 0 }", "graph.nodes[1].args[0]: an argument of unknown kind"},
      {"nodes { op: 0 args { list { items { list { } } } } result_types: 0 }",
       "graph.nodes[1].args[0].list.items[0]: a list inside a list"},
      {"nodes { op: 0 args { s: 'x' } result_types: 0 }",
       "graph.nodes[1].args: aten::relu: argument 0 (self) is of the wrong kind"},
      {"nodes { op: 0 result_types: 0 }", "graph.nodes[1].args: aten::relu takes 1 arguments, not 0"},
      {"nodes { op: 0 args { value: 1 } }", "graph.nodes[1].result_types: 0, but aten.relu.default has 1 results"},
      {"nodes { op: 0 args { value: 1 } result_types: 5 }", "graph.nodes[1].result_types[0]: there is no type 5"},
      {"nodes { op: 0 args { dtype: DTYPE_UNSPECIFIED } result_types: 0 }", "graph.nodes[1].args[0]: unknown dtype 0"},
      {"nodes { op: 0 args { memory_format: 4 } result_types: 0 }", "graph.nodes[1].args[0]: unknown memory format 4"},
      {"outputs { value: 17 }", "graph.outputs[3].value: there is no value 17"},
      {"outputs { sym: 17 }", "graph.outputs[3].sym: there is no expression 17"},
      {"outputs { }", "graph.outputs[3]: an output of unknown kind"},
      {"syms { symbols { min: 2 max: 9 } exprs { op: SYMBOL value: 1 } } outputs { sym: 4 }",
       "graph.outputs[3].sym: symbol 1 is bound by no input"},
  };
  for (const auto& c : kCases) EXPECT_EQ(Invalid(With(c.more)), c.message);
  v1::Graph proto = Proto(kRelu);
  proto.set_level(static_cast<v1::Graph::Level>(9));
  EXPECT_EQ(Invalid(proto), "graph.level: unknown level 9");
}

TEST(ImportGraph, ResultTypesMustBeTheRecords) {
  v1::Graph proto = With("types { dtype: FLOAT64 device: CPU sizes: 0 sizes: 1 strides: 1 strides: 2 }");
  proto.mutable_nodes(0)->set_result_types(0, 1);
  const std::string message = Invalid(proto);
  EXPECT_TRUE(message.starts_with("graph.nodes[0]: relu: result 0 is f32[s0, 8]")) << message;
}

TEST(ImportGraph, LimitsAreNamed) {
  auto exhausted = [](const v1::Graph& graph, const ImportLimits& limits = {}) {
    absl::Status status = ImportGraph(graph, limits).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    return std::string(status.message());
  };
  v1::Graph symbols = Proto(kRelu);
  for (int i = 0; i < 1000000; ++i) symbols.mutable_syms()->add_symbols()->set_max(1);
  EXPECT_EQ(exhausted(symbols), "graph.syms.symbols: 1000001, the limit is 4096");
  v1::Graph rank = Proto(kRelu);
  for (int i = 0; i < 65; ++i) rank.mutable_types(0)->add_sizes(1);
  EXPECT_EQ(exhausted(rank), "graph.types[0].sizes: 67, the limit is 64");
  EXPECT_EQ(exhausted(Proto(kRelu), {.max_nodes = 0}), "graph.nodes: 1, the limit is 0");
  EXPECT_EQ(exhausted(Proto(kRelu), {.max_args = 0}), "graph.nodes[0].args: 1, the limit is 0");
  // An expression whose text doubles at every step.
  v1::Graph doubling = Proto(kRelu);
  for (uint32_t i = 3; i < 200; ++i) {
    v1::SymExpr* e = doubling.mutable_syms()->add_exprs();
    e->set_op(i % 2 ? v1::SymExpr::FLOOR_DIV : v1::SymExpr::MOD);
    e->add_args(i);
    e->add_args(i == 3 ? 0 : i - 1);
  }
  EXPECT_NE(exhausted(doubling).find("graph.syms.exprs["), std::string::npos);
}

TEST(CanonicalBytes, DropsUnknownFields) {
  v1::Graph graph = Proto(kRelu);
  const std::string bytes = CanonicalBytes(graph);
  EXPECT_EQ(bytes, graph.SerializeAsString());
  graph.GetReflection()->MutableUnknownFields(&graph)->AddVarint(1000, 7);
  v1::Node& node = *graph.mutable_nodes(0);
  node.GetReflection()->MutableUnknownFields(&node)->AddVarint(1000, 7);
  EXPECT_NE(graph.SerializeAsString(), bytes);
  EXPECT_EQ(CanonicalBytes(graph), bytes);
  graph.mutable_nodes(0)->set_recompute(1);
  EXPECT_NE(CanonicalBytes(graph), bytes);
}

}  // namespace
}  // namespace kiln
