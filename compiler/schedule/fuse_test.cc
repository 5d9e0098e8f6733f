#include "compiler/schedule/fuse.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "compiler/graph/builder.h"
#include "compiler/graph/text.h"
#include "compiler/loop/text.h"
#include "compiler/lower/alias.h"
#include "compiler/lower/index.h"
#include "compiler/ops/registry.h"
#include "compiler/schedule/lower_step.h"
#include "compiler/schedule/run_graph.h"

namespace kiln {
namespace {

// Builds graphs by record name, and runs them fused and one node at a time.
class Maker {
 public:
  Maker() : b(std::make_shared<SymContext>()) {}

  Sym C(int64_t n) { return b.syms().Const(n); }
  Arg I(int64_t n) { return {C(n)}; }
  Arg Dims(std::vector<int64_t> dims) {
    ArgList list;
    for (const int64_t d : dims) list.push_back(I(d));
    return {std::move(list)};
  }
  Arg Sizes(std::vector<Sym> sizes) {
    ArgList list;
    for (const Sym s : sizes) list.push_back({s});
    return {std::move(list)};
  }
  ValueId In(std::vector<Sym> sizes, DType dtype = DType::kFloat32) {
    TensorType type{.dtype = dtype, .device = DeviceType::kCpu, .sizes = sizes, .strides = {}};
    type.strides = RowMajorStrides(b.syms(), type.sizes);
    return b.AddInput(std::move(type));
  }
  ValueId In(std::vector<int64_t> sizes, DType dtype = DType::kFloat32) {
    std::vector<Sym> syms;
    for (const int64_t s : sizes) syms.push_back(C(s));
    return In(std::move(syms), dtype);
  }
  ValueId Op(const char* name, std::vector<Arg> args) {
    const OpDef* def = FindOp(name);
    EXPECT_NE(def, nullptr) << name;
    Node node{.def = def, .args = args};
    absl::StatusOr<TypeList> types = InferTypes(Call(b.graph(), node));
    EXPECT_TRUE(types.ok()) << name << ": " << types.status();
    GraphBuilder::ResultTypes results(types->begin(), types->end());
    return b.AddNode({std::string(name), std::string(def->schema)}, def, std::move(args), results);
  }
  ValueId Op(const char* name, ValueId x) { return Op(name, {Arg{ValueRef{x}}}); }
  ValueId Op(const char* name, ValueId x, ValueId y, std::vector<Arg> more = {}) {
    std::vector<Arg> args = {Arg{ValueRef{x}}, Arg{ValueRef{y}}};
    args.insert(args.end(), more.begin(), more.end());
    return Op(name, std::move(args));
  }
  ValueId Add(ValueId x, ValueId y) { return Op("add", x, y, {I(1)}); }
  ValueId View(ValueId x, std::vector<Sym> sizes) { return Op("view", {Arg{ValueRef{x}}, Sizes(std::move(sizes))}); }

  // Fused results equal those of the nodes run one by one, for two vector widths; returns the fused run.
  GraphRun Check(std::vector<ValueId> outputs, std::vector<int64_t> sizes = {}, double tolerance = 0) {
    for (const ValueId v : outputs) b.AddOutput(v);
    absl::StatusOr<std::shared_ptr<const Graph>> graph = b.Build();
    EXPECT_TRUE(graph.ok()) << graph.status();
    std::vector<std::string> inputs;
    std::mt19937 random(7);
    for (const GraphInput& input : (*graph)->inputs()) {
      if (input.value == kNoValue) continue;
      const TensorType& type = *(*graph)->type(input.value);
      const int64_t n = *(*graph)->syms().Eval(StorageSize((*graph)->syms(), type),
                                               [&](Var v) -> std::optional<int64_t> { return sizes[v.index]; });
      std::string bytes(n * ByteSize(type.dtype), '\0');
      for (int64_t i = 0; i < n; ++i) {
        const float x = std::uniform_real_distribution<float>(-2, 2)(random);
        if (type.dtype == DType::kFloat32) std::memcpy(&bytes[i * 4], &x, 4);
        if (type.dtype == DType::kBFloat16) std::memcpy(&bytes[i * 2], reinterpret_cast<const char*>(&x) + 2, 2);
      }
      inputs.push_back(std::move(bytes));
    }
    RunGraphOptions one{.limits = {.group_nodes = 1}, .target = {.vector_bytes = 16}, .sizes = sizes};
    absl::StatusOr<GraphRun> want = RunGraph(**graph, inputs, one);
    EXPECT_TRUE(want.ok()) << want.status();
    GraphRun run;
    for (const char* target : {"sm_80", "x86-64-v2", "x86-64-v4"}) {
      RunGraphOptions fused{.limits = {}, .target = *FindScheduleTarget(target), .sizes = sizes};
      absl::StatusOr<GraphRun> got = RunGraph(**graph, inputs, fused);
      EXPECT_TRUE(got.ok()) << got.status();
      if (!got.ok() || !want.ok()) return run;
      for (size_t o = 0; o < outputs.size(); ++o) Compare(want->outputs[o], got->outputs[o], tolerance, got->kernels);
      run = *std::move(got);
    }
    return run;
  }

  static void Compare(const std::string& want, const std::string& got, double tolerance,
                      const std::vector<std::string>& kernels) {
    ASSERT_EQ(want.size(), got.size());
    if (tolerance == 0) {
      EXPECT_TRUE(want == got) << kernels.back();
      return;
    }
    for (size_t i = 0; i + 4 <= want.size(); i += 4) {
      float a, b;
      std::memcpy(&a, &want[i], 4);
      std::memcpy(&b, &got[i], 4);
      ASSERT_NEAR(a, b, tolerance * std::max(1.0f, std::fabs(a))) << i / 4 << "\n" << kernels.back();
    }
  }

  GraphBuilder b;
};

TEST(Fuse, PointwiseChainIsOneKernelOfOneReadAndOneWrite) {
  Maker m;
  const ValueId x = m.In({100, 37});
  const GraphRun run = m.Check({m.Op("relu", m.Add(m.Op("exp", x), m.Op("neg", x)))});
  EXPECT_EQ(run.kernels.size(), 1u);
  EXPECT_EQ(run.reads, 3700u);
  EXPECT_EQ(run.writes, 3700u);
}

TEST(Fuse, TwoBranchesMeet) {
  Maker m;
  const ValueId x = m.In({64, 8}), y = m.In({64, 8});
  const GraphRun run = m.Check({m.Op("mul", m.Op("exp", x), m.Op("neg", y))});
  EXPECT_EQ(run.kernels.size(), 1u);
}

TEST(Fuse, BroadcastBiasAndBothResultsKept) {
  Maker m;
  const ValueId x = m.In({3, 5, 40}), bias = m.In({40});
  const ValueId sum = m.Add(x, bias);
  const GraphRun run = m.Check({sum, m.Op("relu", sum)});
  EXPECT_EQ(run.kernels.size(), 1u);
  EXPECT_EQ(run.writes, 2u * 600);
}

TEST(Fuse, ThroughReshapes) {
  Maker m;
  const ValueId x = m.In({4, 6, 32});
  const ValueId flat = m.View(m.Op("exp", x), {m.C(24), m.C(32)});
  const GraphRun run = m.Check({m.View(m.Op("neg", flat), {m.C(4), m.C(6), m.C(2), m.C(16)})});
  EXPECT_EQ(run.kernels.size(), 1u);
  EXPECT_EQ(run.reads, 768u);
}

TEST(Fuse, TransposedReaderReadsMemory) {
  Maker m;
  const ValueId x = m.In({16, 24});
  const ValueId e = m.Op("exp", x);
  const ValueId t = m.Op("t", e);
  const GraphRun run = m.Check({m.Op("relu", t)});
  EXPECT_LE(run.kernels.size(), 2u);
}

TEST(Fuse, SymbolicSizes) {
  for (const int64_t n : {2, 7, 100}) {
    Maker m;
    const Sym s0 = m.b.AddSize({2, kSymUnbounded});
    m.b.AddSymInput(s0);
    const ValueId x = m.In({s0, m.C(48)}), bias = m.In({48});
    const GraphRun run = m.Check({m.Op("relu", m.Add(m.Op("mul", x, x), bias))}, {n});
    EXPECT_EQ(run.kernels.size(), 1u);
    EXPECT_EQ(run.writes, static_cast<uint64_t>(48 * n));
  }
}

TEST(Fuse, RowReductionWithProducerAndConsumer) {
  Maker m;
  const ValueId x = m.In({20, 100});
  const ValueId sum = m.Op("sum_dim", {Arg{ValueRef{m.Op("exp", x)}}, m.Dims({1}), Arg{true}, Arg{}});
  const GraphRun run = m.Check({m.Op("neg", sum)}, {}, 1e-6);
  EXPECT_EQ(run.kernels.size(), 1u);
  EXPECT_EQ(run.reads, 2000u);
  EXPECT_EQ(run.writes, 20u);
}

TEST(Fuse, RowNormalisationIsOneKernel) {
  Maker m;
  const ValueId x = m.In({20, 100});
  const ValueId sum = m.Op("sum_dim", {Arg{ValueRef{m.Op("mul", x, x)}}, m.Dims({1}), Arg{true}, Arg{}});
  const GraphRun run = m.Check({m.Op("mul", x, m.Op("rsqrt", sum))}, {}, 1e-6);
  EXPECT_EQ(run.kernels.size(), 1u);
}

TEST(Fuse, ColumnReductionStoresItsProducerToo) {
  Maker m;
  const ValueId x = m.In({50, 70});
  const ValueId e = m.Op("exp", x);
  const ValueId sum = m.Op("sum_dim", {Arg{ValueRef{e}}, m.Dims({0}), Arg{false}, Arg{}});
  const GraphRun run = m.Check({e, sum}, {}, 1e-6);
  EXPECT_EQ(run.kernels.size(), 1u);
  EXPECT_EQ(run.reads, 3500u);
}

TEST(Fuse, ReductionOverOuterDimsOfThree) {
  Maker m;
  const ValueId x = m.In({4, 10, 33});
  const ValueId flat = m.View(m.Op("exp", x), {m.C(40), m.C(33)});
  const GraphRun run = m.Check({m.Op("sum_dim", {Arg{ValueRef{flat}}, m.Dims({0}), Arg{true}, Arg{}})}, {}, 1e-6);
  EXPECT_EQ(run.kernels.size(), 1u);
}

TEST(Fuse, ReductionOverFirstAndLast) {
  Maker m;
  const ValueId x = m.In({4, 10, 33});
  const GraphRun run = m.Check({m.Op("sum_dim", {Arg{ValueRef{x}}, m.Dims({0, 2}), Arg{false}, Arg{}})}, {}, 1e-6);
  EXPECT_EQ(run.kernels.size(), 1u);
}

TEST(Fuse, ReaderOfAReductionThatIsMaskedOnlyInForm) {
  // Whether slice_backward needs its mask is judged on a loop's index, over two dims that share the parallel axis.
  for (const int64_t n : {2, 3, 40}) {
    Maker m;
    const Sym s0 = m.b.AddSize({2, kSymUnbounded});
    m.b.AddSymInput(s0);
    const ValueId x = m.In({s0, m.C(5), m.C(7)});
    const ValueId sum = m.Op("sum_dim", {Arg{ValueRef{m.Op("exp", x)}}, m.Dims({2}), Arg{false}, Arg{}});
    const ValueId whole = m.Op("slice_backward", {Arg{ValueRef{sum}}, m.Sizes({s0, m.C(5)}), m.I(0), m.I(0),
                                                  m.I(std::numeric_limits<int64_t>::max()), m.I(1)});
    const GraphRun run = m.Check({m.Op("neg", whole)}, {n}, 1e-6);
    EXPECT_EQ(run.kernels.size(), 1u);
    EXPECT_EQ(run.reads, static_cast<uint64_t>(35 * n));
  }
}

TEST(Fuse, ReaderOfAReductionOverDimsThatAreApart) {
  // Two loops within the row: only the inner one is a vector's.
  Maker m;
  const ValueId x = m.In({4, 7, 40});
  const ValueId sum = m.Op("sum_dim", {Arg{ValueRef{x}}, m.Dims({0, 2}), Arg{true}, Arg{}});
  EXPECT_EQ(m.Check({m.Op("mul", x, sum)}, {}, 1e-5).kernels.size(), 1u);
}

TEST(Fuse, LowPrecisionRoundsAfterEachOp) {
  Maker m;
  const ValueId x = m.In({300}, DType::kBFloat16), y = m.In({300}, DType::kBFloat16);
  m.Check({m.Add(m.Op("mul", x, y), m.Op("exp", x))});
}

TEST(Fuse, NoCycleThroughAnotherGroup) {
  // e is read by a reduction whose result comes back in the other shape: two kernels or one, never a cycle.
  Maker m;
  const ValueId x = m.In({8, 16});
  const ValueId e = m.Op("exp", x);
  const ValueId t = m.Op("exp", m.Op("t", e));  // another space
  const ValueId back = m.Op("neg", m.Op("t", t));
  m.Check({m.Add(e, back)});
}

// y = x * mean over the row, its column sums, and those of x.
GraphRun RowsAndColumns(Sym rows, std::vector<int64_t> sizes = {}, Maker m = {}) {
  const Sym columns = m.C(96);
  const ValueId x = m.In({rows, columns}), w = m.In({columns});
  const ValueId mean = m.Op("mean_dim", {Arg{ValueRef{x}}, m.Dims({1}), Arg{true}, Arg{}});
  const ValueId y = m.Op("mul", m.Op("mul", x, mean), w);
  const ValueId sum_y = m.Op("sum_dim", {Arg{ValueRef{y}}, m.Dims({0}), Arg{false}, Arg{}});
  const ValueId sum_x = m.Op("sum_dim", {Arg{ValueRef{x}}, m.Dims({0}), Arg{true}, Arg{}});
  return m.Check({y, m.Op("neg", sum_y), sum_x}, std::move(sizes), 2e-5);
}

TEST(Fuse, RowAndColumnReductionsOfAFewRowsAreOneKernel) {
  Maker m;
  const GraphRun run = RowsAndColumns(m.C(20), {}, m);
  ASSERT_EQ(run.kernels.size(), 1u);
  EXPECT_EQ(run.schedules[0].sink, Schedule::Sink::kOutside);
}

TEST(Fuse, RowAndColumnReductionsOfManyRowsLeavePartialResults) {
  Maker m;
  EXPECT_EQ(RowsAndColumns(m.C(700), {}, m).kernels.size(), 2u);
}

TEST(Fuse, RowAndColumnReductionsOfAnyNumberOfRows) {
  for (const int64_t n : {0, 1, 50, 400}) {
    Maker m;
    const Sym rows = m.b.syms().Size(0, {0, 1000000});
    EXPECT_EQ(RowsAndColumns(rows, {n}, m).kernels.size(), 2u) << n;
  }
}

TEST(Fuse, ColumnSumsFirstThenTheRowsThatReadTheSame) {
  // The column sums have a group of their own when the rows come: siblings, since both read all of x.
  Maker m;
  const ValueId x = m.In({10, 12, 32});
  const ValueId sum = m.Op("sum_dim", {Arg{ValueRef{x}}, m.Dims({0, 1}), Arg{false}, Arg{}});
  const ValueId flat = m.View(x, {m.C(120), m.C(32)});
  const ValueId largest = m.Op("amax", {Arg{ValueRef{flat}}, m.Dims({1}), Arg{true}});
  const GraphRun run = m.Check({m.Op("neg", sum), m.Op("sub", flat, largest, {m.I(1)})}, {}, 1e-5);
  EXPECT_EQ(run.kernels.size(), 1u);
  EXPECT_EQ(run.schedules[0].sink, Schedule::Sink::kOutside);
}

TEST(Fuse, ManyRowsAreSummedInChunks) {
  Maker m;
  const ValueId x = m.In({1200, 70});
  const ValueId e = m.Op("exp", x);
  const GraphRun run = m.Check({e, m.Op("sum_dim", {Arg{ValueRef{e}}, m.Dims({0}), Arg{false}, Arg{}})}, {}, 1e-5);
  ASSERT_EQ(run.kernels.size(), 2u);
  EXPECT_EQ(run.schedules[0].sink, Schedule::Sink::kOutside);
}

TEST(Fuse, LongRowsAreFoldedInChunks) {
  for (const auto& dims : std::vector<std::vector<int64_t>>{{100003}, {3, 40001}, {2, 3, 40000}}) {
    Maker m;
    const ValueId x = m.In(dims);
    const ValueId e = m.Op("exp", x);
    const int64_t last = static_cast<int64_t>(dims.size()) - 1;
    const ValueId sum = m.Op("sum_dim", {Arg{ValueRef{e}}, m.Dims({last}), Arg{true}, Arg{}});
    const ValueId mean = m.Op("mean_dim", {Arg{ValueRef{x}}, m.Dims({last}), Arg{false}, Arg{}});
    const GraphRun run = m.Check({e, m.Op("log", sum), mean}, {}, 1e-4);
    ASSERT_EQ(run.kernels.size(), 2u);
    EXPECT_EQ(run.schedules[0].sink, Schedule::Sink::kInside);
  }
}

TEST(Fuse, LongRowIsReadAgainByAKernelOfItsOwn) {
  Maker m;
  const ValueId x = m.In({2, 50000});
  const ValueId sum = m.Op("sum_dim", {Arg{ValueRef{x}}, m.Dims({1}), Arg{true}, Arg{}});
  EXPECT_EQ(m.Check({m.Op("div", x, sum)}, {}, 1e-3).kernels.size(), 1u);
  Maker longer;
  const ValueId y = longer.In({2, 90000});
  const ValueId total = longer.Op("sum_dim", {Arg{ValueRef{y}}, longer.Dims({1}), Arg{true}, Arg{}});
  EXPECT_EQ(longer.Check({longer.Op("div", y, total)}, {}, 1e-2).kernels.size(), 3u);
}

TEST(Fuse, FewRowsOfColumnsArePassedTwice) {
  Maker m;
  const ValueId x = m.In({30, 100});
  const ValueId largest = m.Op("amax", {Arg{ValueRef{x}}, m.Dims({0}), Arg{true}});
  const ValueId e = m.Op("exp", m.Op("sub", x, largest, {m.I(1)}));
  const ValueId sum = m.Op("sum_dim", {Arg{ValueRef{e}}, m.Dims({0}), Arg{true}, Arg{}});
  EXPECT_EQ(m.Check({m.Op("div", e, sum)}, {}, 1e-5).kernels.size(), 1u);
}

TEST(Fuse, TransposedOperandGoesThroughTiles) {
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{64, 96}, {70, 45}, {33, 31}}) {
    Maker m;
    const ValueId x = m.In({columns, rows}), y = m.In({rows, columns});
    const GraphRun run = m.Check({m.Add(m.Op("t", x), m.Op("mul", y, m.Op("t", x)))});
    ASSERT_EQ(run.schedules.size(), 1u);
    EXPECT_EQ(run.schedules[0].tiled, 0);
    // x once, and through scratch.
    EXPECT_EQ(run.reads, static_cast<uint64_t>(3 * rows * columns));
    EXPECT_EQ(run.writes, static_cast<uint64_t>(2 * rows * columns));
  }
}

TEST(Fuse, TilesOfSymbolicSizesBesideAnotherDim) {
  for (const int64_t n : {0, 1, 40}) {
    Maker m;
    const Sym s = m.b.syms().Size(0, {0, 1000});
    const ValueId x = m.In({m.C(3), s, m.C(50)}), y = m.In({m.C(3), m.C(50), s});
    const ValueId t = m.Op("transpose", {Arg{ValueRef{x}}, m.I(1), m.I(2)});
    const GraphRun run = m.Check({m.Add(y, t)}, {n});
    EXPECT_EQ(run.schedules[0].tiled, 1);
  }
}

TEST(Fuse, VectorsGoAlongMemoryWhereStridesAreSymbolic) {
  Maker m;
  const Sym s = m.b.syms().Size(0, {2, 1000}), n = m.b.syms().Size(1, {2, 1000});
  const ValueId x = m.In({s, n}), y = m.In({n, s});
  // The result is laid out as the transposed operand is.
  const ValueId t = m.Op("t", {Arg{ValueRef{x}}});
  const GraphRun run = m.Check({m.Op("exp", t), m.Add(t, y)}, {40, 50});
  for (const Schedule& schedule : run.schedules) EXPECT_EQ(schedule.dims.back(), std::vector<int>{0});
}

TEST(Fuse, ResultsThatOutgrowTheCachesAreStreamed) {
  for (const auto& [points, streamed] : {std::pair(1 << 23, true), std::pair((1 << 23) - 1, false)}) {
    Maker m;
    m.b.AddOutput(m.Op("exp", m.In({points})));
    const auto graph = m.b.Build();
    ASSERT_TRUE(graph.ok()) << graph.status();
    const Aliases aliases(**graph);
    const auto fusion = Fuse(**graph, aliases, {});
    ASSERT_TRUE(fusion.ok()) << fusion.status();
    const auto step = LowerStep(**graph, aliases, *fusion, fusion->order[0], {}, nullptr);
    ASSERT_TRUE(step.ok()) << step.status();
    EXPECT_EQ(absl::StrContains(loop::ToText(step->kernels[0].kernel), " streaming"), streamed);
  }
}

// Each of the long ones goes through its own memory, one after another; the short ones are in cache together.
TEST(Fuse, LongGroupsThatShareNothingHaveLoopsOfTheirOwn) {
  for (const auto& [points, loops] : {std::pair(8192, 4), std::pair(1000, 1)}) {
    Maker m;
    std::vector<ValueId> outputs;
    for (int i = 0; i < 4; ++i) outputs.push_back(m.Op("exp", {Arg{ValueRef{m.In({points})}}}));
    const GraphRun run = m.Check(outputs);
    ASSERT_EQ(run.kernels.size(), 1u);
    EXPECT_EQ(static_cast<int>(std::vector<std::string>(absl::StrSplit(run.kernels[0], "vector i")).size()), loops + 1)
        << run.kernels[0];
  }
}

TEST(Fuse, SoftmaxEvaluatesEachExponentialOnce) {
  Maker m;
  const ValueId x = m.In({9, 100});
  const ValueId largest = m.Op("amax", {Arg{ValueRef{x}}, m.Dims({1}), Arg{true}});
  const ValueId e = m.Op("exp", m.Op("sub", x, largest, {m.I(1)}));
  const ValueId sum = m.Op("sum_dim", {Arg{ValueRef{e}}, m.Dims({1}), Arg{true}, Arg{}});
  const GraphRun run = m.Check({m.Op("div", e, sum)}, {}, 1e-5);
  ASSERT_EQ(run.kernels.size(), 1u);
  EXPECT_EQ(run.kernels[0].find("= exp "), run.kernels[0].rfind("= exp "));
  EXPECT_EQ(run.reads, 3u * 900);  // x, and from scratch x and the exponentials
  EXPECT_EQ(run.writes, 3u * 900);
}

TEST(Fuse, SmallKernelsOfAnySpacesAreOneLaunch) {
  Maker m;
  const ValueId x = m.In({6, 50}), y = m.In({7, 11, 3}), z = m.In({130});
  const ValueId sum = m.Op("sum_dim", {Arg{ValueRef{m.Op("exp", y)}}, m.Dims({2}), Arg{true}, Arg{}});
  const ValueId columns = m.Op("sum_dim", {Arg{ValueRef{x}}, m.Dims({0}), Arg{true}, Arg{}});
  const GraphRun run = m.Check({m.Op("neg", x), m.Op("sub", y, sum, {m.I(1)}), columns, m.Op("exp", z)}, {}, 1e-5);
  EXPECT_EQ(run.kernels.size(), 1u);
}

TEST(Fuse, WhatIsAsLargeAsTheReducedRowsJoinsThem) {
  // A running mean: m = 0.9 * r + 0.1 * mean(x).
  Maker m;
  const ValueId x = m.In({700, 400}), r = m.In({700, 1}), w = m.In({700, 1});
  const ValueId mean = m.Op("mean_dim", {Arg{ValueRef{x}}, m.Dims({1}), Arg{true}, Arg{}});
  const ValueId old = m.Op("mul", r, w);
  const GraphRun run = m.Check({m.Add(old, mean), m.Op("sub", x, mean, {m.I(1)}), old}, {}, 1e-5);
  EXPECT_EQ(run.kernels.size(), 1u);
}

TEST(Fuse, SiblingsOfOtherShapesStayApart) {
  // Both read all of x, but a point of one has no simple index in the other.
  Maker m;
  const ValueId x = m.In({800, 900});
  EXPECT_EQ(m.Check({m.Op("exp", x), m.Op("neg", m.Op("t", x))}).kernels.size(), 2u);
  Maker same;
  const ValueId y = same.In({300, 400});
  const ValueId flat = same.View(y, {same.C(300), same.C(20), same.C(20)});
  EXPECT_EQ(same.Check({same.Op("exp", y), same.Op("neg", flat)}).kernels.size(), 1u);
}

TEST(Fuse, NoRowsAtAll) {
  Maker m;
  const ValueId x = m.In({0, 12}), z = m.In({3});
  const ValueId mean = m.Op("mean_dim", {Arg{ValueRef{x}}, m.Dims({1}), Arg{true}, Arg{}});
  const ValueId sum = m.Op("sum_dim", {Arg{ValueRef{x}}, m.Dims({0}), Arg{false}, Arg{}});
  const GraphRun run = m.Check({m.Op("sub", x, mean, {m.I(1)}), sum, m.Op("exp", z)});
  EXPECT_EQ(run.kernels.size(), 1u);
}

TEST(Fuse, SmallIndependentKernelsAreOne) {
  Maker m;
  const ValueId x = m.In({6, 50}), y = m.In({300});
  EXPECT_EQ(m.Check({m.Op("exp", x), m.Op("neg", y)}).kernels.size(), 1u);
}

std::string OrderOf(const std::string& text) {  // 'k'ernel, 'x' external call
  absl::StatusOr<std::shared_ptr<const Graph>> graph = ParseGraph("graph inference\n" + text, ResolveOp);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return "";
  const absl::StatusOr<Fusion> fusion = Fuse(**graph, Aliases(**graph));
  EXPECT_TRUE(fusion.ok()) << fusion.status();
  if (!fusion.ok()) return "";
  std::string kinds;
  for (const FusedStep& step : fusion->order) kinds += step.kind == FusedStep::Kind::kGroup ? 'k' : 'x';
  return kinds;
}

// What frees more comes first: the sum, which frees %4, before the large %5 is made.
TEST(Fuse, StepsComeInAnOrderOfLittleMemory) {
  EXPECT_EQ(OrderOf(R"(%0 = input f32[8, 8]
%1 = input f32[8, 64]
%2 = aten.mm.default(%0, %0) : f32[8, 8]
%3 = aten.mm.default(%2, %2) : f32[8, 8]
%4 = aten.mm.default(%2, %3) : f32[8, 8]
%5 = aten.mm.default(%2, %1) : f32[8, 64]
%6 = sum(%4, none) : f32[]
return %5, %6
)"),
            "xxxkx");
}

// Two branches of a block: the second call needs nothing of the first's kernel, which may then share an entry with the
// second's. Not where the call's result would be alive beside what the kernel needs, at the peak of all.
TEST(Fuse, CallsGoBeforeKernelsThatTheyDoNotRead) {
  const std::string head = R"(%0 = input f32[80, 80]
%1 = input f32[60, 60]
%2 = aten.mm.default(%0, %0) : f32[80, 80]
%3 = sum(%2, none) : f32[]
%4 = aten.mm.default(%1, %1) : f32[60, 60]
%5 = add(%4, %3, 1) : f32[60, 60]
)";
  EXPECT_EQ(OrderOf(head + "%6 = aten.mm.default(%5, %1) : f32[60, 60]\n%7 = aten.mm.default(%5, %6) : f32[60, 60]\n" +
                    "return %5, %6, %7\n"),
            "xxkkxx");
  EXPECT_EQ(OrderOf(head + "return %5\n"), "xkxk");
}

// Though the call makes less, so that it stood first.
TEST(Fuse, KernelsGoBeforeCallsThatTheyDoNotRead) {
  EXPECT_EQ(OrderOf(R"(%0 = input f32[30, 30]
%1 = input f32[999, 999]
%2 = exp(%0) : f32[30, 30]
%3 = aten.mm.default(%2, %2) : f32[30, 30]
%4 = sin(%1) : f32[999, 999]
%5 = aten.mm.default(%4, %4) : f32[999, 999]
%6 = aten.mm.default(%3, %3) : f32[30, 30]
return %2, %3, %4, %5, %6
)"),
            "kkxxx");
}

}  // namespace
}  // namespace kiln
