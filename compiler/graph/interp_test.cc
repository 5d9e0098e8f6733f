#include "compiler/graph/interp.h"

#include <cstring>
#include <string>

#include "compiler/graph/text.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

HostArray F32(std::vector<int64_t> sizes, const std::vector<float>& values) {
  HostArray a{DType::kFloat32, std::move(sizes), std::string(values.size() * 4, '\0')};
  std::memcpy(a.data.data(), values.data(), a.data.size());
  return a;
}

std::shared_ptr<const Graph> Parse(std::string_view text) {
  auto graph = ParseGraph(text, [](OpName&) -> const OpDef* { return nullptr; });
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *graph;
}

// "add": elementwise; "size": a scalar that holds its argument.
absl::StatusOr<std::vector<HostValue>> Eval(const NodeRun& run) {
  const Node& node = run.node();
  if (run.graph().op_name(node).name == "size") {
    absl::StatusOr<int64_t> v = run.Eval(std::get<Sym>(node.args[0].v));
    if (!v.ok()) return v.status();
    return std::vector<HostValue>{F32({}, {static_cast<float>(*v)}), {}};
  }
  if (run.graph().op_name(node).name != "add") return absl::UnimplementedError("unknown");
  HostArray out = run.value(std::get<ValueRef>(node.args[0].v).id);
  const HostArray& y = run.value(std::get<ValueRef>(node.args[1].v).id);
  for (size_t i = 0; i < out.data.size(); i += 4) {
    float a, b;
    std::memcpy(&a, &out.data[i], 4);
    std::memcpy(&b, &y.data[i], 4);
    a += b;
    std::memcpy(&out.data[i], &a, 4);
  }
  return std::vector<HostValue>{out};
}

constexpr std::string_view kGraph = R"(graph inference
size s0 [0, inf]
%0 = input f32[s0]
%1 = constant f32[] 0000003f
%2 = add(%0, %0) : f32[s0]
%3 = add(%2, %0) : f32[s0]
%4, %5 = size(s0 + 1) : f32[], none
%6 = add(%4, %1) : f32[]
update 0 %3
return %2, %6, s0*2, none
)";

TEST(Interpret, RunsInOrderAndBindsSizesOfTensors) {
  auto graph = Parse(kGraph);
  auto result = Interpret(*graph, std::vector<HostValue>{F32({2}, {1, 5})}, Eval);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->outputs.size(), 4u);
  EXPECT_EQ(std::get<HostArray>(result->outputs[0]), F32({2}, {2, 10}));
  EXPECT_EQ(std::get<HostArray>(result->outputs[1]), F32({}, {3.5}));
  EXPECT_EQ(std::get<int64_t>(result->outputs[2]), 4);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(result->outputs[3]));
  ASSERT_EQ(result->updates.size(), 1u);
  EXPECT_EQ(result->updates[0], F32({2}, {3, 15}));
}

TEST(Interpret, RefusesInputsThatDoNotFit) {
  auto graph = Parse(kGraph);
  EXPECT_EQ(Interpret(*graph, {}, Eval).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Interpret(*graph, std::vector<HostValue>{int64_t{3}}, Eval).status().message(), "input 0 must be a tensor");
  EXPECT_EQ(Interpret(*graph, std::vector<HostValue>{F32({2, 1}, {1, 2})}, Eval).status().message(),
            "input 0: wrong sizes");
  EXPECT_EQ(Interpret(*graph, std::vector<HostValue>{F32({2}, {1})}, Eval).status().message(),
            "input 0: wrong number of bytes");
}

TEST(Interpret, NamesTheNodeThatFails) {
  auto graph = Parse("graph inference\nbad() :\nreturn\n");
  EXPECT_EQ(Interpret(*graph, {}, Eval).status().message(), "node 0 (bad): unknown");
}

}  // namespace
}  // namespace kiln
