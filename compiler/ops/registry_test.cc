#include "compiler/ops/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "compiler/graph/builder.h"
#include "compiler/graph/text.h"
#include "compiler/ops/handles.h"
#include "compiler/ops/info.h"
#include "compiler/ops/op_builder.h"

namespace kiln {
namespace {

bool TakesTensors(const OpDef& def) {
  return std::ranges::any_of(SchemaOf(def).args, [](const SchemaArg& a) {
    return a.kind == ArgKind::kTensor || a.kind == ArgKind::kTensorOrScalar;
  });
}

TEST(Registry, IsSortedAndFindable) {
  std::string last;
  for (const OpDef* def : AllOps()) {
    EXPECT_LT(last, std::string(def->name()));  // sorted by the record's own name, which is therefore its KILN_OP name
    last = std::string(def->name());
    EXPECT_EQ(FindOp(def->name()), def);
    for (std::string_view overload : def->torch) EXPECT_EQ(FindTorchOp(overload), def) << overload;
  }
  EXPECT_EQ(FindOp("exp"), &op::exp());
  EXPECT_EQ(FindOp("no_such_op"), nullptr);
  EXPECT_EQ(FindTorchOp("aten.no_such.op"), nullptr);
}

TEST(Registry, RecordsAreWellFormed) {
  std::map<std::string, std::string> owner;
  for (const OpDef* def : AllOps()) {
    const std::string name(def->name());
    const absl::StatusOr<Schema> schema = ParseSchema(def->schema);
    ASSERT_TRUE(schema.ok()) << schema.status();
    EXPECT_NE(def->shape, nullptr) << name;
    const int meanings = (def->lower || def->order) + !!def->view + !!def->reduce + !!def->decompose;
    EXPECT_LE(meanings, 1) << name;
    // Without an overload of torch's it can't be an external call.
    EXPECT_FALSE(def->torch.empty() && !def->has_meaning()) << name;
    for (std::string_view overload : def->torch) {
      EXPECT_EQ(owner.emplace(overload, name).second, true)
          << overload << " belongs to " << owner[std::string(overload)];
    }
    const bool computes = def->has_meaning() && !def->decompose;
    EXPECT_FALSE(def->traits.random && computes) << name << ": random numbers are drawn by the framework";
    EXPECT_FALSE(def->vjp != nullptr && !def->no_grad.empty()) << name;
    SymContext syms;
    for (const SchemaArg& arg : schema->args) {
      if (arg.default_text) EXPECT_TRUE(DefaultArg(arg, syms).ok()) << name << " " << arg.name;
    }
  }
}

// What records pull from anywhere but the result's own index has no one-element reference; tests of their own cover
// them (defs_test.cc).
TEST(Registry, PointwiseRecordsHaveReferenceAndSamples) {
  const std::set<std::string> pulled = {"cat",
                                        "constant_pad_nd",
                                        "embedding",
                                        "flip",
                                        "gather",
                                        "index",
                                        "index_select",
                                        "repeat",
                                        "roll",
                                        "select_backward",
                                        "stack",
                                        "select_scatter",
                                        "slice_backward",
                                        "slice_scatter",
                                        "tril",
                                        "triu",
                                        "empty_like",
                                        "full_like",
                                        "new_empty",
                                        "new_empty_strided",
                                        "new_full",
                                        "new_ones",
                                        "new_zeros",
                                        "ones_like",
                                        "zeros_like",
                                        "avg_pool2d",
                                        "avg_pool2d_backward",
                                        "pixel_shuffle",
                                        "pixel_unshuffle"};
  for (const OpDef* def : AllOps()) {
    if (def->lower == nullptr || def->order != nullptr || !TakesTensors(*def)) continue;
    const std::string name(def->name());
    EXPECT_EQ(def->ref == nullptr, pulled.contains(name))
        << name << ": .ref, or a line here that says why there is none";
    EXPECT_EQ(def->samples.empty(), def->ref == nullptr) << name << ": .ref and .samples go together";
  }
}

TEST(FindTorchOp, WantsASchemaThatTheRecordTakes) {
  EXPECT_EQ(FindTorchOp("aten.relu.default", "aten::relu(Tensor self) -> Tensor"), &op::relu());
  EXPECT_EQ(FindTorchOp("aten.relu.default", "aten::relu(Tensor self, bool fast) -> Tensor"), nullptr);
  EXPECT_EQ(FindTorchOp("aten.relu.default", "nonsense"), nullptr);
}

std::shared_ptr<const Graph> Parse(const char* text) {
  absl::StatusOr<std::shared_ptr<const Graph>> graph = ParseGraph(text, ResolveOp);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *graph : nullptr;
}

TEST(VerifyCall, ComparesWithTheShapeRule) {
  const auto graph = Parse(R"kir(graph inference
    size s0 [2, inf]
    %0 = input f32[s0, 4]
    %1 = input f32[s0, 1]
    %2 = add(%0, %1, 1) : f32[s0, 4]
    %3 = add(%0, %1, 1) : f32[s0, 5]
    %4 = add(%0, %1, 1) : f64[s0, 4]
    %5 = add(%0, %1, "x") : f32[s0, 4]
    return %2)kir");
  ASSERT_NE(graph, nullptr);
  EXPECT_TRUE(VerifyCall(Call(*graph, graph->nodes()[0])).ok());
  EXPECT_EQ(VerifyCall(Call(*graph, graph->nodes()[1])).message(),
            "add: result 0 is f32[s0, 4] on cpu, not f32[s0, 5]");
  EXPECT_EQ(VerifyCall(Call(*graph, graph->nodes()[2])).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(VerifyCall(Call(*graph, graph->nodes()[3])).message(), "add: argument 2 (alpha) is of the wrong kind");
}

TEST(HasMeaning, DependsOnElementTypesAndArguments) {
  const auto graph = Parse(R"kir(graph inference
    size s0 [2, 100]
    %0 = input f32[4]
    %1 = input c64[4]
    %2 = input i64[4]
    %3 = input bool[4]
    %4 = exp(%0) : f32[4]
    %5 = exp(%1) : c64[4]
    %6 = view(%1, [2, 2]) : c64[2, 2]
    %7 = bitwise_and(%2, %3) : i64[4]
    %8 = index(%0, [%3]) : f32[s0]
    %9 = index(%0, [%2]) : f32[4]
    %10 = pow_scalar(%2, -1) : i64[4]
    %11 = add(%0, %0, s0) : f32[4]
    %12 = add(%0, s0, 1) : f32[4]
    %13 = mm(%0, %0) : f32[4]
    return %4)kir");
  ASSERT_NE(graph, nullptr);
  const bool wanted[] = {true, false, true, true, false, true, false, false, true, false};
  for (size_t i = 0; i < std::size(wanted); ++i) {
    EXPECT_EQ(HasMeaning(Call(*graph, graph->nodes()[i])), wanted[i]) << PrintNode(*graph, graph->nodes()[i]);
  }
}

TEST(TraitsOf, ReadsSchemasOfUnknownOperators) {
  const auto graph = Parse(R"kir(graph inference
    op aten.bernoulli.p "aten::bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor"
    op aten.copy_.default "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)"
    op aten.sort.default "aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor, Tensor)"
    op aten.rand.default "aten::rand(SymInt[] size, bool of_another_version) -> Tensor"
    %0 = input f32[4]
    %1 = aten.bernoulli.p(%0, 0.5, none) : f32[4]
    %2 = aten.copy_.default(%0, %1, false) : f32[4]
    %3, %4 = aten.sort.default(%0, -1, false) : f32[4], i64[4]
    %5 = aten.rand.default([4], true) : f32[4]
    %6 = mm(%0, %0) : f32[4]
    return %1)kir");
  ASSERT_NE(graph, nullptr);
  const auto traits = [&](size_t i) { return TraitsOf(Call(*graph, graph->nodes()[i])); };
  EXPECT_TRUE(traits(0).random);
  EXPECT_TRUE(traits(1).effect);
  EXPECT_FALSE(traits(2).random || traits(2).effect);
  EXPECT_TRUE(traits(3).random);
  EXPECT_TRUE(traits(4).compute_heavy);
}

TEST(OpBuilder, InfersTypesAndFillsInDefaults) {
  auto syms = std::make_shared<SymContext>();
  GraphBuilder graph(syms);
  const Sym n = graph.AddSize({2, 1000});
  const ValueId x = graph.AddInput({.sizes = {n, syms->Const(4)}, .strides = {syms->Const(4), syms->Const(1)}});
  OpBuilder b(graph);
  graph.AddOutput(b.mm(b.t(b.add(x, 1.5)), b.exp(x)));
  const auto built = graph.Build();
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(PrintGraph(**built), R"kir(graph inference
size s0 [2, 1000]
op add "add(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor"
op t "t(Tensor self) -> Tensor"
op exp "exp(Tensor self) -> Tensor"
op aten.mm.default "aten::mm(Tensor self, Tensor mat2) -> Tensor"
%0 = input f32[s0, 4]
%1 = add(%0, 1.5, 1) : f32[s0, 4]
%2 = t(%1) : f32[4, s0]{1, 4}
%3 = exp(%0) : f32[s0, 4]
%4 = aten.mm.default(%2, %3) : f32[4, 4]
return %4
)kir");
}

TEST(OpBuilder, AWrongCallIsABug) {
  GraphBuilder graph(std::make_shared<SymContext>());
  OpBuilder b(graph);
  EXPECT_EQ(b.exp(ValueId{7}), kNoValue);
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInternal);
  EXPECT_NE(graph.status().ToString().find("exp: an operand is not defined"), std::string::npos) << graph.status();
}

TEST(ListOps, HasKindAndGradientOfEach) {
  std::map<std::string, OpInfo> ops;
  for (OpInfo& info : ListOps()) ops[info.name] = info;
  EXPECT_EQ(ops.size(), AllOps().size());
  EXPECT_EQ(ops["exp"].kind, "pointwise");
  EXPECT_EQ(ops["view"].kind, "view");
  EXPECT_EQ(ops["sum"].kind, "reduction");
  EXPECT_EQ(ops["full"].kind, "creation");
  EXPECT_EQ(ops["mm"].kind, "external");
  EXPECT_EQ(ops["eq"].gradient, "the result is a bool");
  ASSERT_TRUE(ops["silu"].budget.has_value());
  EXPECT_EQ(ops["silu"].budget->ulp, op::silu().budget.ulp);
  EXPECT_FALSE(ops["sum"].budget.has_value());
  EXPECT_EQ(ops["add"].torch, (std::vector<std::string>{"aten.add.Tensor", "aten.add.Scalar"}));
}

}  // namespace
}  // namespace kiln
